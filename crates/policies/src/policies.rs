//! The plugin: decides about each event by the lists, the work, and the script.

use std::collections::HashSet;

use hikyaku_event::{Event, PublicKey};
use hikyaku_server::{AddressRange, Client, Verdict};

use crate::{
    KindRange, PolicyConfig, ScriptFailure,
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
}

impl Policies {
    /// Makes the policies, and starts the script's threads if there is one: it is one process, which
    /// all clones ask. The process itself begins with the first event.
    pub fn new(config: PolicyConfig) -> std::io::Result<Self> {
        Ok(Self {
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
            config,
        })
    }

    /// Decides about an event.
    pub async fn on_event(&self, client: &Client, event: &Event) -> Verdict {
        if let Err(reason) = self.check_lists(client, event) {
            return Verdict::reject(reason);
        }
        // The script is asked about what has been worked for alone: asking costs more than looking.
        let work = self.work_wanted(event);
        if let Some(script) = &self.script
            && hikyaku_server::work_done(event) >= u32::from(work)
        {
            return match script.ask(client, event).await {
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
        if among(&config.addresses_denied)
            || !config.addresses_allowed.is_empty() && !among(&config.addresses_allowed)
        {
            return Err("blocked: nothing is taken from your address");
        }
        if self.keys_denied.contains(&event.pubkey()) {
            return Err("blocked: nothing is taken from this key");
        }
        if !self.keys_allowed.is_empty() && !self.keys_allowed.contains(&event.pubkey()) {
            return Err("restricted: only certain keys may write here");
        }
        if of_kinds(&config.kinds_denied)
            || !config.kinds_allowed.is_empty() && !of_kinds(&config.kinds_allowed)
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
