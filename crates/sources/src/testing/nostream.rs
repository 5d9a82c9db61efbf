//! nostream's tables as its migrations make them (to 20240111, after which none touches `events` but
//! to add indexes), and its way of storing events.

use std::fmt::Write as _;

use hikyaku_event::Event;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

const MIGRATIONS: &str = r#"
create extension if not exists "uuid-ossp";
create table "events" (
    "id" uuid default uuid_generate_v4(), "event_id" bytea not null,
    "event_pubkey" bytea not null, "event_kind" integer not null,
    "event_created_at" integer not null, "event_content" text not null, "event_tags" jsonb,
    "event_signature" bytea not null, "first_seen" timestamp default CURRENT_TIMESTAMP);
alter table "events" add constraint "events_pkey" primary key ("id");
alter table "events" add constraint "events_event_id_unique" unique ("event_id");
create index "events_event_pubkey_index" on "events" ("event_pubkey");
create index "events_event_kind_index" on "events" ("event_kind");
create index "events_event_created_at_index" on "events" ("event_created_at");
create index event_tags_idx on events using gin (event_tags);
alter table "events" add column "event_delegator" bytea null;
alter table "events" add column "deleted_at" timestamp null;
alter table "events" add column "event_deduplication" jsonb null;
create unique index replaceable_events_idx
    on events (event_pubkey, event_kind, event_deduplication)
    where (event_kind = 0 or event_kind = 3 or event_kind = 41
        or (event_kind >= 10000 and event_kind < 20000))
        or (event_kind >= 30000 and event_kind < 40000);
alter table "events" add column "remote_address" text null;
alter table "events" add column "expires_at" integer null;
create index "events_expires_at_index" on "events" ("expires_at");
create table "event_tags" (
    "id" uuid default uuid_generate_v4(), "event_id" bytea not null, "tag_name" text not null,
    "tag_value" text not null);
create index "event_tags_event_id_index" on "event_tags" ("event_id");
create index "event_tags_tag_name_tag_value_index" on "event_tags" ("tag_name", "tag_value");
create or replace function process_event_tags() returns trigger as $$
declare
    tag_element jsonb;
    tag_name text;
    tag_value text;
begin
    delete from event_tags where event_id = old.event_id;
    if tg_op = 'INSERT' or tg_op = 'UPDATE' then
        for tag_element in select jsonb_array_elements(new.event_tags) loop
            tag_name := trim((tag_element->0)::text, '"');
            tag_value := trim((tag_element->1)::text, '"');
            if length(tag_name) = 1 and tag_value is not null and tag_value <> '' then
                insert into event_tags (event_id, tag_name, tag_value)
                values (new.event_id, tag_name, tag_value);
            end if;
        end loop;
    end if;
    return new;
end;
$$ language plpgsql;
create trigger insert_event_tags after insert or update or delete on events
    for each row execute function process_event_tags();
alter table "events" drop column "event_delegator";
"#;

/// A database that a relay has open.
pub struct NostreamDatabase {
    runtime: Runtime,
    client: Client,
}

#[expect(clippy::expect_used, reason = "a test may panic")]
impl NostreamDatabase {
    /// Runs the migrations in an empty database.
    pub fn create(address: &str) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (client, connection) = runtime
            .block_on(tokio_postgres::connect(address, NoTls))
            .expect("a connection");
        runtime.spawn(connection);
        let database = Self { runtime, client };
        database.run(MIGRATIONS);
        database
    }

    /// Stores events that are not replaceable; a known one changes nothing.
    pub fn add<'a>(&self, events: impl IntoIterator<Item = &'a Event>) {
        for event in events {
            self.insert(event, "null", "on conflict do nothing");
        }
    }

    /// Stores a replaceable or addressable event in the place of an older one.
    pub fn add_replacing(&self, event: &Event) {
        let address = event.address().expect("an event with an address");
        let deduplication = match address.d.as_str() {
            "" => format!("[\"{}\",{}]", event.pubkey(), event.kind().0),
            d => format!("[\"{d}\"]"),
        };
        self.insert(
            event,
            &format!("'{deduplication}'"),
            "on conflict (event_pubkey, event_kind, event_deduplication) where (event_kind = 0 \
             or event_kind = 3 or event_kind = 41 or (event_kind >= 10000 and event_kind < 20000)) \
             or (event_kind >= 30000 and event_kind < 40000) \
             do update set event_id = excluded.event_id, \
             event_created_at = excluded.event_created_at, event_tags = excluded.event_tags, \
             event_content = excluded.event_content, event_signature = excluded.event_signature, \
             expires_at = excluded.expires_at, deleted_at = null \
             where events.event_created_at < excluded.event_created_at",
        );
    }

    /// Marks an event as deleted, as a kind 5 of its author does.
    pub fn delete(&self, event: &Event) {
        self.run(&format!(
            "update events set deleted_at = now() where event_id = '\\x{}'",
            event.id()
        ));
    }

    /// Runs other statements.
    pub fn run(&self, statements: &str) {
        self.runtime
            .block_on(self.client.batch_execute(statements))
            .expect("statements of the test");
    }

    fn insert(&self, event: &Event, deduplication: &str, conflict: &str) {
        let mut tags = String::from("[");
        for (index, tag) in event.tags().enumerate() {
            let strings: Vec<_> = tag
                .strings()
                .map(|text| hikyaku_event::escape(&text))
                .collect();
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(tags, "{comma}[{}]", strings.join(","));
        }
        tags.push(']');
        let text = |text: &str| text.replace('\'', "''");
        let expires_at = event
            .expires_at()
            .map_or("null".to_owned(), |at| at.to_string());
        self.run(&format!(
            "insert into events (event_id, event_pubkey, event_created_at, event_kind, event_tags, \
             event_content, event_signature, event_deduplication, remote_address, expires_at) \
             values ('\\x{}', '\\x{}', {}, {}, '{}', '{}', '\\x{}', {deduplication}, '127.0.0.1', \
             {expires_at}) {conflict}",
            event.id(),
            event.pubkey(),
            event.created_at(),
            event.kind().0,
            text(&tags),
            text(&event.content()),
            event.sig(),
        ));
    }
}
