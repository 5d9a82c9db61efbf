//! Which id is right, and what makes no difference to it.

use hikyaku_event::EventError;

use crate::wire::{Draft, hash, object, parse};

/// Contents with everything that has ever made two implementations disagree.
fn contents() -> Vec<String> {
    let mut contents: Vec<String> = [
        "",
        "\u{7f}",
        "\u{80}\u{9f}\u{a0}",
        "\u{2028}\u{2029}\u{feff}\u{fffd}\u{ffff}",
        "\u{d7ff}\u{e000}",
        "日本語 \u{1f980} \u{10000}\u{10ffff}",
        "\n\"\\\r\t\u{8}\u{c}",
        "</script> / \\/ \\u0041 \\\\u0041",
        "' ` < > & é e\u{301}",
    ]
    .map(String::from)
    .to_vec();
    contents.extend((0..=0x7f).map(|byte| char::from(byte).to_string()));
    contents.extend((0..=0x7f).map(|byte| format!("seven..{}.more", char::from(byte))));
    contents.push((0..=0x7f).map(char::from).collect());
    contents.push("a long one \u{1f980}\n".repeat(1000));
    contents
}

#[test]
fn ids_are_right_over_any_content() {
    for content in contents() {
        let draft = Draft::new(&[&["t", &content], &[&content], &[]], &content);
        let event = parse(&draft.json());
        assert_eq!(event.verify_id(), Ok(()), "{content:?}");
        assert_eq!(event.content(), content);
        assert_eq!(
            event.tag_values(b't').collect::<Vec<_>>(),
            [content.as_str()]
        );
        assert_eq!(event.json(), draft.json().as_bytes());

        let mut other = draft.clone();
        other.content.push('x');
        let forged = parse(&draft.json_with("id", &format!("\"{}\"", other.id())));
        assert_eq!(forged.verify_id(), Err(EventError::WrongId), "{content:?}");
    }
}

#[test]
fn ids_over_verbatim_control_characters_are_right_too() {
    for content in contents() {
        let draft = Draft::new(&[&["t", &content]], &content);
        // As NIP-01 has it to the letter: only the seven characters it names are escaped.
        let mut serialisation = draft.serialisation();
        for control in (0..0x20).map(char::from) {
            serialisation =
                serialisation.replace(&format!("\\u{:04x}", control as u32), &control.to_string());
        }
        if content.contains("\\u") {
            continue;
        }
        let id = format!("\"{}\"", hash(serialisation.as_bytes()));
        let event = parse(&draft.json_with("id", &id));
        assert_eq!(event.verify_id(), Ok(()), "{content:?}");
    }
}

#[test]
fn every_spelling_of_a_text_has_one_id() {
    for (content, spellings) in [
        (
            "A/é",
            &[
                r#""A/é""#,
                r#""\u0041\/\u00e9""#,
                r#""A\/\u00E9""#,
                r#""A\/é""#,
            ][..],
        ),
        (
            "\u{1f980}",
            &[r#""🦀""#, r#""\ud83e\udd80""#, r#""\uD83E\uDD80""#],
        ),
        ("\n\"", &[r#""\n\"""#, r#""\u000a\u0022""#, r#""\u000A\"""#]),
        ("\u{0}\u{1f}", &[r#""\u0000\u001f""#, r#""\u0000\u001F""#]),
        ("\u{7f}\\", &["\"\u{7f}\\\\\"", r#""\u007f\u005c""#]),
        ("\u{d7ff}\u{e000}", &[r#""\ud7ff\ue000""#]),
    ] {
        let draft = Draft::new(&[&["t", content], &["x"]], content);
        for spelling in spellings {
            let tags = format!("[[\"t\",{spelling}],[\"\\u0078\"]]");
            let json = draft.json_with("content", spelling);
            let event = parse(&json);
            assert_eq!(
                (event.verify_id(), &*event.content()),
                (Ok(()), content),
                "{json}"
            );
            let json = draft.json_with("tags", &tags);
            let event = parse(&json);
            assert_eq!(event.verify_id(), Ok(()), "{json}");
            assert_eq!(event.tag_values(b't').next().unwrap(), content);
            assert_eq!(event.tags().nth(1).unwrap().letter(), Some(b'x'));
        }
    }
}

#[test]
fn key_order_white_space_and_unknown_keys_do_not_matter() {
    let draft = Draft::new(&[&["e", "x", ""], &["t"], &[]], "hello [\"world\"], {}");
    let mut members = draft.members();
    for _ in 0..members.len() {
        members.rotate_left(1);
        let compact = object(&members);
        assert_eq!(
            parse(&compact).json(),
            compact.as_bytes(),
            "compact JSON is kept"
        );
        assert_eq!(parse(&compact).verify_id(), Ok(()));

        let padded = format!("\r\n\t {compact} \n");
        assert_eq!(parse(&padded).json(), compact.as_bytes());

        let values = [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "-1.5e+9",
            "1E9",
            "\"\\ud83e\\udd80\"",
            "[]",
            "{}",
            "[[],{},[1,\"]\"],null]",
            "{\"a\":{\"id\":[{}]},\"\":1}",
            " [ 1 , { \"a\" : 2 } ] ",
        ];
        for value in values {
            let mut extended = members.clone();
            extended.insert(3, ("seen_on".into(), value.into()));
            extended.push(("also".into(), value.into()));
            let event = parse(&object(&extended));
            assert_eq!(event.json(), draft.json().as_bytes(), "{value}");
            assert_eq!(event.verify_id(), Ok(()));
        }
    }
    let spaced = draft
        .json()
        .replace(":[[", " : [ [ ")
        .replace("],[", "\n] ,\t[ ");
    assert_eq!(parse(&spaced).json(), draft.json().as_bytes());
    let escaped = draft.json().replace("\"kind\"", "\"\\u006bind\"");
    assert_eq!(parse(&escaped).json(), draft.json().as_bytes());
    let escaped = draft.json_with("sig", &format!("\"{}\\u0030f\"", "0f".repeat(63)));
    assert_eq!(parse(&escaped).json(), draft.json().as_bytes());
}

#[test]
fn a_real_follow_lists_size_is_nothing_special() {
    let key = "ab".repeat(32);
    let tag: &[&str] = &["p", &key];
    let draft = Draft::new(&vec![tag; 10_000], &"x".repeat(1_000_000));
    let event = parse(&draft.json());
    assert_eq!(event.verify_id(), Ok(()));
    assert_eq!(event.tags().count(), 10_000);
}
