//! What a server is told before it starts, kept so that each worker can carry it out by itself.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    task::Poll,
};

use hikyaku_store::LocalFuture;

use super::{Hooks, Instances, PluginError, Worker, call::text_of};

/// Makes one plugin on a worker.
pub(crate) trait Factory: Send {
    /// Returns the plugin's name.
    fn plugin(&self) -> &'static str;
    fn copy(&self) -> Box<dyn Factory>;
    fn make(
        self: Box<Self>,
        worker: Worker,
    ) -> LocalFuture<'static, Result<Rc<dyn std::any::Any>, PluginError>>;
}

/// Binds one handler to its plugin's instance on a worker.
pub(crate) trait Binding: Send {
    fn copy(&self) -> Box<dyn Binding>;
    fn bind(self: Box<Self>, plugins: &Instances, hooks: &mut Hooks);
}

impl<F: FnOnce(&Instances, &mut Hooks) + Clone + Send + 'static> Binding for F {
    fn copy(&self) -> Box<dyn Binding> {
        Box::new(self.clone())
    }

    fn bind(self: Box<Self>, plugins: &Instances, hooks: &mut Hooks) {
        self(plugins, hooks);
    }
}

/// All that makes a worker's plugins and handlers, in the order of registration.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) factories: Vec<Box<dyn Factory>>,
    pub(crate) bindings: Vec<Box<dyn Binding>>,
}

impl Clone for Setup {
    fn clone(&self) -> Self {
        Self {
            factories: self
                .factories
                .iter()
                .map(|factory| factory.copy())
                .collect(),
            bindings: self.bindings.iter().map(|binding| binding.copy()).collect(),
        }
    }
}

impl Setup {
    /// Makes the plugins of a worker, one after the other, and binds their handlers. `Err` names the
    /// plugin that can't start.
    pub(crate) async fn carry_out(
        self,
        worker: Worker,
    ) -> Result<Hooks, (&'static str, PluginError)> {
        let mut plugins = Instances::default();
        for factory in self.factories {
            let name = factory.plugin();
            let made = unpanicked(factory.make(worker.clone())).await;
            plugins.push(made.map_err(|error| (name, error))?);
        }
        let mut hooks = Hooks::default();
        for binding in self.bindings {
            binding.bind(&plugins, &mut hooks);
        }
        Ok(hooks)
    }
}

/// Makes a failure of a panic: what can't be done is to be told, however a plugin says so.
pub(crate) async fn unpanicked<T>(
    mut making: LocalFuture<'static, Result<T, PluginError>>,
) -> Result<T, PluginError> {
    std::future::poll_fn(move |cx| {
        caught(|| making.as_mut().poll(cx)).unwrap_or_else(|panic| Poll::Ready(Err(panic)))
    })
    .await
}

/// Does the same with what is done at once.
pub(crate) fn caught<T>(part: impl FnOnce() -> T) -> Result<T, PluginError> {
    // What it leaves behind is the plugin's own, and nobody asks for it.
    catch_unwind(AssertUnwindSafe(part))
        .map_err(|panic| format!("it panicked: {}", text_of(&*panic)).into())
}

/// A factory that the application has given.
pub(crate) struct Given<F> {
    name: &'static str,
    factory: F,
}

impl<F> Given<F> {
    pub(crate) fn new(name: &'static str, factory: F) -> Self {
        Self { name, factory }
    }
}

/// Wraps a factory so that its type of plugin is known.
pub(crate) fn factory<P, F>(name: &'static str, factory: F) -> Box<dyn Factory>
where
    P: 'static,
    F: AsyncFnOnce(Worker) -> Result<P, PluginError> + Clone + Send + 'static,
{
    let make = move |worker: Worker| -> LocalFuture<'static, _> {
        Box::pin(async move {
            let plugin: Rc<dyn std::any::Any> = Rc::new(factory(worker).await?);
            Ok(plugin)
        })
    };
    Box::new(Given::new(name, make))
}

impl<F> Factory for Given<F>
where
    F: FnOnce(Worker) -> LocalFuture<'static, Result<Rc<dyn std::any::Any>, PluginError>>
        + Clone
        + Send
        + 'static,
{
    fn plugin(&self) -> &'static str {
        self.name
    }

    fn copy(&self) -> Box<dyn Factory> {
        Box::new(Self::new(self.name, self.factory.clone()))
    }

    fn make(
        self: Box<Self>,
        worker: Worker,
    ) -> LocalFuture<'static, Result<Rc<dyn std::any::Any>, PluginError>> {
        (self.factory)(worker)
    }
}
