//! Which plugins a server has, as a type: asking for one that is not registered does not compile.

use std::{any::Any, marker::PhantomData, rc::Rc};

/// No plugins.
#[derive(Debug)]
pub struct NoPlugins;

/// The plugin `P`, and those that were registered before it.
#[derive(Debug)]
pub struct With<P, Earlier>(PhantomData<fn() -> (P, Earlier)>);

/// A list of plugins: [`NoPlugins`] or [`With`].
pub trait PluginList: sealed::Sealed {
    /// How many there are.
    const COUNT: usize;
}

impl PluginList for NoPlugins {
    const COUNT: usize = 0;
}

impl<P, Earlier: PluginList> PluginList for With<P, Earlier> {
    const COUNT: usize = Earlier::COUNT + 1;
}

/// The place of the plugin that was registered last; found by the compiler.
#[derive(Debug)]
pub struct Last;

/// A place among those that were registered earlier; found by the compiler.
#[derive(Debug)]
pub struct Among<At>(PhantomData<At>);

/// A list that has the plugin `P`, at a place that the compiler finds.
///
/// What is registered can be asked for, whether or not it is `Send`:
/// ```
/// # use std::{rc::Rc, sync::Arc};
/// # use hikyaku_server::{Client, Server, ServerConfig, Verdict};
/// # use hikyaku_event::Event;
/// # let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
/// # let store = Arc::new(hikyaku_store::testing::NaiveStore::new());
/// struct Policy(Rc<u8>);
/// let server = Server::new(config, store)
///     .plugin(async |_| Ok(Policy(Rc::new(1))))
///     .on_event(async |_: &Policy, _: &Client, _: &Event| Verdict::Accept);
/// ```
/// What is not, can not:
/// ```compile_fail,E0277
/// # use std::{rc::Rc, sync::Arc};
/// # use hikyaku_server::{Client, Server, ServerConfig, Verdict};
/// # use hikyaku_event::Event;
/// # let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
/// # let store = Arc::new(hikyaku_store::testing::NaiveStore::new());
/// struct Policy(Rc<u8>);
/// struct Other;
/// let server = Server::new(config, store)
///     .plugin(async |_| Ok(Policy(Rc::new(1))))
///     .on_event(async |_: &Other, _: &Client, _: &Event| Verdict::Accept);
/// ```
/// Nor can a plugin be made before its worker is there and then be sent to it:
/// ```compile_fail,E0277
/// # use std::{rc::Rc, sync::Arc};
/// # use hikyaku_server::{Server, ServerConfig};
/// # let config = ServerConfig::new(([127, 0, 0, 1], 0).into());
/// # let store = Arc::new(hikyaku_store::testing::NaiveStore::new());
/// struct Policy(Rc<u8>);
/// let shared = Rc::new(1);
/// let server = Server::new(config, store)
///     .plugin(async move |_| Ok(Policy(shared)));
/// ```
#[diagnostic::on_unimplemented(
    message = "no plugin `{P}` is registered on this server",
    label = "this handler asks for a `{P}`",
    note = "register it before: `.plugin(|worker| async move {{ Ok(...) }})`"
)]
pub trait Has<P, At>: PluginList {
    /// Its number in the order of registration.
    const POSITION: usize;
}

impl<P, Earlier: PluginList> Has<P, Last> for With<P, Earlier> {
    const POSITION: usize = Earlier::COUNT;
}

impl<P, Q, At, Earlier: Has<P, At>> Has<P, Among<At>> for With<Q, Earlier> {
    const POSITION: usize = Earlier::POSITION;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::NoPlugins {}
    impl<P, Earlier> Sealed for super::With<P, Earlier> {}
}

/// One worker's instances, in the order of registration.
#[derive(Default)]
pub(crate) struct Instances(Vec<Rc<dyn Any>>);

impl Instances {
    pub(crate) fn push(&mut self, plugin: Rc<dyn Any>) {
        self.0.push(plugin);
    }

    /// Returns the plugin at a position that [`Has`] gave.
    #[expect(
        clippy::expect_used,
        reason = "the server's type says what is there, and where"
    )]
    pub(crate) fn get<P: 'static>(&self, position: usize) -> Rc<P> {
        self.0
            .get(position)
            .and_then(|plugin| Rc::clone(plugin).downcast().ok())
            .expect("the list of plugins names what was made")
    }
}
