//! An event's tags as JSON text.

/// Tags in the making. Values are written as they are: they are escaped already.
#[derive(Debug, Default)]
pub(super) struct Tags(String);

impl Tags {
    pub(super) fn push(&mut self, tag: &[&str]) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        for (place, value) in tag.iter().enumerate() {
            self.0.push(if place == 0 { '[' } else { ',' });
            self.0.push('"');
            self.0.push_str(value);
            self.0.push('"');
        }
        self.0.push(']');
    }

    pub(super) fn into_json(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('[');
        }
        self.0.push(']');
        self.0
    }
}
