//! What the policies are told.

use std::{fmt, os::unix::fs::PermissionsExt as _, str::FromStr, time::Duration};

use hikyaku_event::{Kind, PublicKey};
use hikyaku_server::AddressRange;
use serde_json::{Map, Value};

use crate::trust::DEPTH_MAX;

/// What is let in. The default lets everything in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Keys that may write; none means all.
    pub keys_allowed: Vec<PublicKey>,
    /// Keys that may not.
    pub keys_denied: Vec<PublicKey>,
    /// Kinds that may be written; none means all.
    pub kinds_allowed: Vec<KindRange>,
    /// Kinds that may not.
    pub kinds_denied: Vec<KindRange>,
    /// Texts that no event's content may have in it, in whatever case.
    pub words_denied: Vec<String>,
    /// Addresses that may write; none means all.
    pub addresses_allowed: Vec<AddressRange>,
    /// Addresses that may not.
    pub addresses_denied: Vec<AddressRange>,
    /// Work that an event must show, by kind; the first rule that has its kind counts.
    pub work: Vec<WorkRule>,
    /// Keys that are members, and alone may write; none means that there are no members.
    pub members: Vec<PublicKey>,
    /// Members may invite others, who then are members too (NIP-43). Needs the relay's key.
    pub members_invite: bool,
    /// How long an invitation is good.
    pub invitation_time: Duration,
    /// Only members may read, too.
    pub members_read: bool,
    /// Keys whose follow lists (NIP-02) say who may write; none means that it is not asked.
    pub trust_roots: Vec<PublicKey>,
    /// How many steps from them: 1 is whom they follow. At most 4.
    pub trust_depth: u32,
    /// How many keys are trusted at most; who comes later is not. It bounds the memory.
    pub trusted_max: usize,
    /// How long ago a key must have tried to write for the first time. Needs a table.
    pub account_age: Option<Duration>,
    /// The command of a write-policy plugin of strfry's kind.
    pub script: Option<String>,
    /// How long the plugin may take for one event.
    pub script_timeout: Duration,
    /// What becomes of an event that the plugin gives no answer to.
    pub script_failure: ScriptFailure,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            keys_allowed: Vec::new(),
            keys_denied: Vec::new(),
            kinds_allowed: Vec::new(),
            kinds_denied: Vec::new(),
            words_denied: Vec::new(),
            addresses_allowed: Vec::new(),
            addresses_denied: Vec::new(),
            work: Vec::new(),
            members: Vec::new(),
            members_invite: false,
            invitation_time: Duration::from_hours(7 * 24),
            members_read: false,
            trust_roots: Vec::new(),
            trust_depth: 2,
            trusted_max: 1_000_000,
            account_age: None,
            script: None,
            script_timeout: Duration::from_secs(5),
            script_failure: ScriptFailure::Refuse,
        }
    }
}

impl PolicyConfig {
    /// Tells whether everything is let in.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                script_timeout: self.script_timeout,
                script_failure: self.script_failure,
                invitation_time: self.invitation_time,
                trust_depth: self.trust_depth,
                trusted_max: self.trusted_max,
                ..Self::default()
            }
    }

    /// Says what in it can't mean what it says: a word without letters, members who invite where there
    /// are none, a depth of trust that there is not, a script that is not there.
    pub fn check(&self) -> Result<(), PolicySyntaxError> {
        let refused = |reason: String| Err(PolicySyntaxError(reason));
        if self.words_denied.iter().any(|word| word.trim().is_empty()) {
            return refused("a denied word without letters would be in every event".to_owned());
        }
        if self.members.is_empty() && (self.members_invite || self.members_read) {
            let what = if self.members_invite {
                "invite"
            } else {
                "alone read"
            };
            return refused(format!("members can't {what} where there are none"));
        }
        if self.trust_depth as usize > DEPTH_MAX {
            return refused(format!(
                "the web of trust is at most {DEPTH_MAX} steps deep, and not {}",
                self.trust_depth
            ));
        }
        match self.script.as_deref() {
            Some(command) if command.trim().is_empty() => {
                refused("the script's command is empty".to_owned())
            }
            // Of a command with arguments nobody knows which part is the script; one without a `/` is
            // looked for by the shell.
            Some(path) if path.starts_with(['/', '.']) && !path.contains(' ') => {
                match std::fs::metadata(path) {
                    Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => Ok(()),
                    Ok(_) => refused(format!("the script `{path}` is no file that can be run")),
                    Err(error) => refused(format!("the script `{path}` is not there: {error}")),
                }
            }
            _ => Ok(()),
        }
    }

    /// Tells whether queries are decided about too.
    pub fn decides_queries(&self) -> bool {
        !self.members.is_empty() && (self.members_read || self.members_invite)
    }

    /// Says in the information document (NIP-11) what these policies mean for clients.
    pub fn describe(&self, document: &mut Map<String, Value>) {
        if let Some(Value::Object(limitation)) = document.get_mut("limitation") {
            limitation.insert("restricted_writes".to_owned(), true.into());
            if !self.members.is_empty() && self.members_read {
                limitation.insert("auth_required".to_owned(), true.into());
            }
        }
        if !self.members.is_empty()
            && self.members_invite
            && let Some(Value::Array(nips)) = document.get_mut("supported_nips")
        {
            nips.push(43.into());
            nips.sort_by_key(Value::as_u64);
        }
    }
}

/// What becomes of an event that a write-policy plugin gives no answer to: it has ended, it took too
/// long, or it said what nobody understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptFailure {
    /// It is refused with `error: `, as strfry does.
    Refuse,
    /// It is let in.
    Accept,
}

/// Kinds from one to another, both included: `1`, `30000-39999`, `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindRange {
    first: u16,
    last: u16,
}

impl KindRange {
    /// Tells whether a kind is one of them.
    pub fn contains(&self, kind: Kind) -> bool {
        (self.first..=self.last).contains(&kind.0)
    }
}

/// So many bits of work for these kinds: `1=16`, `*=8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkRule {
    /// For which kinds.
    pub kinds: KindRange,
    /// How many bits; 0 for none.
    pub bits: u8,
}

/// A text that is not what a policy is written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySyntaxError(String);

impl fmt::Display for PolicySyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicySyntaxError {}

impl FromStr for KindRange {
    type Err = PolicySyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || {
            PolicySyntaxError(format!(
                "`{text}` is no kind or range of kinds like 1, 30000-39999 or *"
            ))
        };
        if text == "*" {
            return Ok(Self {
                first: 0,
                last: u16::MAX,
            });
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self {
            first: first.parse().map_err(|_| refused())?,
            last: last.parse().map_err(|_| refused())?,
        };
        if range.first > range.last {
            return Err(refused());
        }
        Ok(range)
    }
}

impl fmt::Display for KindRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (0, u16::MAX) => f.write_str("*"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for WorkRule {
    type Err = PolicySyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || {
            PolicySyntaxError(format!(
                "`{text}` is no rule for work like 1=16, 30000-39999=20 or *=8"
            ))
        };
        let (kinds, bits) = text.split_once('=').ok_or_else(refused)?;
        Ok(Self {
            kinds: kinds.parse()?,
            bits: bits.parse().map_err(|_| refused())?,
        })
    }
}

impl fmt::Display for WorkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kinds, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in ["1=16", "30000-39999=20", "*=0"] {
            assert_eq!(text.parse::<WorkRule>().unwrap().to_string(), text);
        }
        for text in ["", "1", "1=", "=1", "2-1=3", "1=256", "70000=1", "-1=1"] {
            assert!(text.parse::<WorkRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_range_has_both_its_ends() {
        let range: KindRange = "10-20".parse().unwrap();
        let inside = [9, 10, 20, 21].map(|kind| range.contains(Kind(kind)));
        assert_eq!(inside, [false, true, true, false]);
    }

    /// A file that nobody can run.
    const NO_PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

    type Change = fn(&mut PolicyConfig);

    #[test]
    fn what_can_not_mean_what_it_says_is_refused() {
        let wrong: [(Change, &str); 7] = [
            (
                |config| config.words_denied = vec!["x".into(), " ".into()],
                "a denied word",
            ),
            (
                |config| config.members_invite = true,
                "members can't invite",
            ),
            (
                |config| config.members_read = true,
                "members can't alone read",
            ),
            (|config| config.trust_depth = 5, "at most 4 steps deep"),
            (|config| config.script = Some(" ".into()), "is empty"),
            (
                |config| config.script = Some("/nonexistent/x".into()),
                "is not there",
            ),
            (
                |config| config.script = Some(NO_PROGRAM.into()),
                "no file that can be run",
            ),
        ];
        for (spoil, reason) in wrong {
            let mut config = PolicyConfig::default();
            assert_eq!(config.check(), Ok(()));
            spoil(&mut config);
            let refused = config.check().unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        for command in ["/bin/sh", "policy", "/nonexistent/x --with arguments"] {
            let config = PolicyConfig {
                script: Some(command.into()),
                ..PolicyConfig::default()
            };
            assert_eq!(config.check(), Ok(()), "{command}");
        }
    }

    #[test]
    fn a_timeout_alone_is_no_policy() {
        let mut config = PolicyConfig {
            script_timeout: Duration::from_secs(1),
            ..PolicyConfig::default()
        };
        config.trust_depth = 3;
        assert!(config.is_empty());
        config.words_denied.push("x".to_owned());
        assert!(!config.is_empty());
    }
}
