//! A member's own way to its footprints, over HTTP: `/footprints`. They are off until it turns them on
//! there, and are left by an explicit call alone.

use std::sync::Arc;

use hikyaku_event::PublicKey;
use hikyaku_members::{MemberNumber, Members};
use hikyaku_server::{IntoResponse, Json, Problem, Request, Response, Worker};
use hikyaku_tables::Stamp;

use crate::{operations::footprints_of, waiting::unix_now_us};

/// What the members' requests are answered from; nothing where nothing is kept about members.
pub(crate) struct FootprintsPage {
    members: Option<Arc<Members>>,
}

impl FootprintsPage {
    pub(crate) fn on_worker(worker: &Worker) -> Self {
        Self {
            members: worker.members().cloned(),
        }
    }

    /// Tells whether the asking member takes part, and who looked at its page, newest first.
    pub(crate) async fn show(&self, request: Request) -> Result<Response, Problem> {
        self.answer(request, None).await
    }

    /// Turns the asking member's footprints on: those it leaves, and those on its page.
    pub(crate) async fn turn_on(&self, request: Request) -> Result<Response, Problem> {
        self.answer(request, Some(true)).await
    }

    /// Turns them off, which takes away what was there.
    pub(crate) async fn turn_off(&self, request: Request) -> Result<Response, Problem> {
        self.answer(request, Some(false)).await
    }

    /// Leaves the asking member's footprint on another's page, if both want them. It is not told whether
    /// the other does.
    pub(crate) async fn leave(&self, mut request: Request) -> Result<(), Problem> {
        let page_of: String = request.param("key")?;
        let page_of = PublicKey::from_hex(page_of.as_bytes())
            .map_err(|error| Problem::bad_request(format!("that is no public key: {error}")))?;
        let (members, visitor) = self.who(&mut request).await?;
        if let Some(page_of) = members.number(&page_of) {
            let stamp = Stamp {
                at_us: unix_now_us(),
                origin: 0,
            };
            members.leave_footprint(visitor, page_of, stamp)?;
        }
        Ok(())
    }

    async fn answer(
        &self,
        mut request: Request,
        switch: Option<bool>,
    ) -> Result<Response, Problem> {
        let (members, member) = self.who(&mut request).await?;
        let mut response = Json(footprints_of(members, member, switch)?).into_response();
        let headers = response.headers_mut();
        headers.insert("cache-control", "no-store".parse()?);
        Ok(response)
    }

    /// Returns who asks: the signature of the request, or the browser's session, says so.
    async fn who(&self, request: &mut Request) -> Result<(&Members, MemberNumber), Problem> {
        let key = request.member().await?;
        let members = self.members.as_deref();
        let known = members.and_then(|members| Some((members, members.number(&key)?)));
        known.ok_or_else(|| {
            Problem::not_found(
                "nothing is kept about this key: whoever has written here is a member",
            )
        })
    }
}
