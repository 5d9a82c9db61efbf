//! The page that a browser sees: what this address is, and how to use it.

use std::fmt::Write as _;

use hikyaku_relay::{RelayInformation, SUPPORTED_NIPS};

/// The page loads nothing but pictures the operator has named, and runs nothing.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; base-uri 'none'; \
     form-action 'none'";

pub(super) const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2433; --paper: #f7f5f0; --card: #fff; --soft: #667085; \
--line: #e2ded4; --accent: #b3382c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e1; --paper: #16181d; --card: #1f2229; \
--soft: #9aa3b2; --line: #30343d; --accent: #f08070; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 3rem 1rem; background: var(--paper); color: var(--ink); \
font: 1rem/1.6 system-ui, sans-serif; }
main { max-width: 40rem; margin: auto; padding: 2rem; background: var(--card); \
border: 1px solid var(--line); border-top: 4px solid var(--accent); border-radius: .5rem; }
h1 { margin: 0 0 .5rem; font-size: 1.75rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .5rem; font-size: 1rem; color: var(--soft); font-weight: 600; }
img { float: right; width: 4.5rem; height: 4.5rem; margin-left: 1rem; border-radius: .5rem; \
object-fit: cover; }
p { margin: .5rem 0; white-space: pre-line; overflow-wrap: anywhere; }
a { color: var(--accent); }
code { padding: .1em .35em; border: 1px solid var(--line); border-radius: .25rem; \
overflow-wrap: anywhere; }
ul { display: flex; flex-wrap: wrap; gap: .4rem; margin: .5rem 0; padding: 0; list-style: none; }
li a { display: block; padding: .1rem .6rem; border: 1px solid var(--line); border-radius: 1rem; \
text-decoration: none; font-size: .9rem; }
footer { margin-top: 2rem; color: var(--soft); font-size: .9rem; }
";

/// How many people use the relay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) members: u64,
    /// Since midnight (UTC).
    pub(super) seen_today: u64,
}

/// Writes the page. `public_url` is the relay's address, if the operator has named it.
pub(super) fn render(
    information: &RelayInformation,
    public_url: Option<&str>,
    figures: Option<Figures>,
) -> String {
    let name = Escaped(information.name.as_deref().unwrap_or("A Nostr relay"));
    let mut page = String::with_capacity(4096);
    // Writing to a string can't fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    if let Some(icon) = information
        .icon
        .as_deref()
        .filter(|icon| is_web_address(icon))
    {
        let _ = writeln!(page, "<img src=\"{}\" alt=\"\">", Escaped(icon));
    }
    let _ = writeln!(page, "<h1>{name}</h1>");
    if let Some(description) = &information.description {
        let _ = writeln!(page, "<p>{}</p>", Escaped(description));
    }
    if let Some(figures) = figures {
        let Figures {
            members,
            seen_today,
        } = figures;
        let plural = if members == 1 { "" } else { "s" };
        let _ = writeln!(
            page,
            "<p>{members} member{plural}, {seen_today} here today.</p>"
        );
    }
    page.push_str("<h2>How to connect</h2>\n<p>This is a Nostr relay. Add ");
    let _ = match public_url {
        Some(url) => write!(
            page,
            "<code>{}</code> to the relays of your Nostr client",
            Escaped(url)
        ),
        None => page.write_str(
            "this page's own address to the relays of your Nostr client, with <code>wss://</code> \
             in place of <code>https://</code> (or <code>ws://</code> in place of \
             <code>http://</code>)",
        ),
    };
    page.push_str(".</p>\n<h2>What it speaks</h2>\n<ul>\n");
    for nip in SUPPORTED_NIPS {
        let _ = writeln!(
            page,
            "<li><a href=\"https://github.com/nostr-protocol/nips/blob/master/{nip:02}.md\">NIP-{nip:02}</a></li>"
        );
    }
    page.push_str("</ul>\n");
    contacts(&mut page, information);
    let _ = write!(
        page,
        "<footer>{} {}</footer>\n</main>\n</body>\n</html>\n",
        link(&information.software),
        Escaped(&information.version)
    );
    page
}

fn contacts(page: &mut String, information: &RelayInformation) {
    let key = information.pubkey.map(|key| key.to_hex());
    if key.is_none() && information.contact.is_none() && information.terms_of_service.is_none() {
        return;
    }
    page.push_str("<h2>Who runs it</h2>\n");
    if let Some(contact) = &information.contact {
        let _ = writeln!(page, "<p>{}</p>", link(contact));
    }
    if let Some(key) = key {
        let _ = writeln!(page, "<p><code>{key}</code></p>");
    }
    if let Some(terms) = &information.terms_of_service {
        let _ = writeln!(page, "<p>Terms of service: {}</p>", link(terms));
    }
}

/// Makes a link of what is one, and plain text of what might be a trap.
fn link(text: &str) -> String {
    let escaped = Escaped(text);
    if is_web_address(text) || text.starts_with("mailto:") {
        format!("<a href=\"{escaped}\">{escaped}</a>")
    } else {
        escaped.to_string()
    }
}

fn is_web_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// Text, safe in HTML's content and in quoted attributes.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_configured_can_break_out_of_the_page() {
        let trap = "\"><script>alert('x')</script>";
        let information = RelayInformation {
            name: Some(trap.into()),
            description: Some(trap.into()),
            icon: Some(format!("https://example.com/{trap}")),
            contact: Some(format!("javascript:{trap}")),
            terms_of_service: Some(format!("https://example.com/{trap}")),
            software: trap.into(),
            version: trap.into(),
            ..RelayInformation::default()
        };
        let page = render(&information, Some(trap), None);
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("\"javascript:"), "{page}");
        assert!(page.contains("&quot;&gt;&lt;script&gt;"));
    }

    #[test]
    fn an_unconfigured_relay_has_a_page_too() {
        let page = render(&RelayInformation::default(), None, None);
        assert!(page.contains("<h1>A Nostr relay</h1>"));
        assert!(page.contains("NIP-01"));
        assert!(!page.contains("Who runs it"));
    }

    #[test]
    fn a_relay_that_has_a_public_address_shows_it() {
        let page = render(
            &RelayInformation::default(),
            Some("wss://relay.example.com"),
            None,
        );
        assert!(
            page.contains("<code>wss://relay.example.com</code>"),
            "{page}"
        );
    }
}
