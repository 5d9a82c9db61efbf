//! The plugin: decides about each event by the lists, the work, and the script.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use hikyaku_event::{Event, Filter, PublicKey};
use hikyaku_server::{AddressRange, Client, PluginError, QueryVerdict, Verdict, Worker};
use hikyaku_tables::Table;

use crate::{
    KindRange, PolicyConfig, RelayKey, ScriptFailure,
    community::{Community, Place},
    membership::{JOIN, LEAVE},
    script::{Answer, Script},
};

/// One worker's policies.
#[derive(Debug, Clone)]
pub struct Policies {
    keys_allowed: HashSet<PublicKey>,
    keys_denied: HashSet<PublicKey>,
    /// In lower case.
    words_denied: Vec<String>,
    config: PolicyConfig,
    script: Option<Script>,
    /// How long an event waits for the script: less than this hook may take.
    patience: Duration,
    /// Where what all workers share is made, and what it is once this is a worker's.
    place: Place,
    community: Arc<Community>,
}

impl Policies {
    /// Makes the policies, and starts the script's threads if there is one: it is one process, which
    /// all clones ask. The process itself begins with the first event. Refused is a configuration
    /// that can't mean what it says ([`PolicyConfig::check`]).
    pub fn new(config: PolicyConfig) -> io::Result<Self> {
        let refused = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        config.check().map_err(refused)?;
        Ok(Self {
            patience: config.script_timeout,
            keys_allowed: config.keys_allowed.iter().copied().collect(),
            keys_denied: config.keys_denied.iter().copied().collect(),
            words_denied: config
                .words_denied
                .iter()
                .map(|word| word.to_lowercase())
                .collect(),
            script: config
                .script
                .clone()
                .map(|command| Script::start(command, config.script_timeout))
                .transpose()?,
            place: Place::default(),
            community: Arc::default(),
            config,
        })
    }

    /// Adds the relay's own key, with which it lets members in that others have invited.
    #[must_use]
    pub fn with_relay_key(mut self, key: RelayKey) -> Self {
        self.place.key = Some(key);
        self
    }

    /// Adds a table of keys and when they first tried to write: a hash table, or one in memory.
    #[must_use]
    pub fn with_first_tries(mut self, table: Arc<dyn Table>) -> Self {
        self.place.first_tries = Some(table);
        self
    }

    /// Makes one worker's policies: the factory of the plugin. The first of a server reads from its
    /// store who is a member and who is trusted; `self` is to be cloned for the others.
    pub async fn on_worker(mut self, worker: Worker) -> Result<Self, PluginError> {
        let handler_timeout = worker.handler_timeout();
        if self.script.is_some() && self.config.script_timeout >= handler_timeout {
            let (script, handler) = (self.config.script_timeout, handler_timeout);
            return Err(format!(
                "a script may take {script:?} for an event, and a handler {handler:?}: the script must \
                 be given less"
            )
            .into());
        }
        // The rest is for what is asked before, and to answer in.
        self.patience = handler_timeout / 10 * 9;
        self.community = self.place.community(&self.config, &worker).await?;
        Ok(self)
    }

    /// Follows what is published, so that members and the web of trust are those of now: the
    /// plugin's task.
    pub async fn follow(&self) {
        self.community.follow().await;
    }

    /// Decides about a query.
    #[expect(clippy::unused_async, reason = "hooks are async")]
    pub async fn on_query(&self, client: &Client, filters: &[Filter]) -> QueryVerdict {
        self.community.decide_query(client, filters)
    }

    /// Decides about an event.
    pub async fn on_event(&self, client: &Client, event: &Event) -> Verdict {
        if let Err(reason) = self.check_lists(client, event) {
            return Verdict::reject(reason);
        }
        if let Some(verdict) = self.community.decide(event).await {
            return verdict;
        }
        // The script is asked about what has been worked for alone: asking costs more than looking.
        let work = self.work_wanted(event);
        if let Some(script) = &self.script
            && hikyaku_server::work_done(event) >= u32::from(work)
        {
            return match script.ask(client, event, self.patience).await {
                Some(Answer::Accept) => Verdict::Accept,
                Some(Answer::Reject(message)) => Verdict::reject(message),
                Some(Answer::ShadowReject) => Verdict::ShadowReject,
                None => match self.config.script_failure {
                    ScriptFailure::Accept => Verdict::Accept,
                    ScriptFailure::Refuse => Verdict::reject(
                        "error: this relay can not decide on events now, try again later",
                    ),
                },
            };
        }
        match work {
            0 => Verdict::Accept,
            bits => Verdict::RequireWork { bits },
        }
    }

    fn check_lists(&self, client: &Client, event: &Event) -> Result<(), &'static str> {
        let config = &self.config;
        let address = client.address();
        let among = |ranges: &[AddressRange]| ranges.iter().any(|range| range.contains(address));
        let kind = event.kind();
        let of_kinds = |ranges: &[KindRange]| ranges.iter().any(|range| range.contains(kind));
        // Who asks to be let in is nobody's yet, and what they say is kept nowhere.
        let is_at_the_door = config.members_invite && (kind == JOIN || kind == LEAVE);
        if among(&config.addresses_denied)
            || !config.addresses_allowed.is_empty() && !among(&config.addresses_allowed)
        {
            return Err("blocked: nothing is taken from your address");
        }
        if self.keys_denied.contains(&event.pubkey()) {
            return Err("blocked: nothing is taken from this key");
        }
        if !self.keys_allowed.is_empty()
            && !is_at_the_door
            && !self.keys_allowed.contains(&event.pubkey())
        {
            return Err("restricted: only certain keys may write here");
        }
        if of_kinds(&config.kinds_denied)
            || !config.kinds_allowed.is_empty()
                && !is_at_the_door
                && !of_kinds(&config.kinds_allowed)
        {
            return Err("blocked: events of this kind are not taken here");
        }
        if !self.words_denied.is_empty() {
            let content = event.content().to_lowercase();
            if self.words_denied.iter().any(|word| content.contains(word)) {
                return Err("blocked: the content has words in it that are not taken here");
            }
        }
        Ok(())
    }

    fn work_wanted(&self, event: &Event) -> u8 {
        let mut rules = self.config.work.iter();
        rules
            .find(|rule| rule.kinds.contains(event.kind()))
            .map_or(0, |rule| rule.bits)
    }
}
