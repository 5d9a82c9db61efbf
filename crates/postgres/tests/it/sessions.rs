//! The secret of browsers' sessions and what is revoked, as several nodes see them.

use std::thread;

use futures_util::{FutureExt, StreamExt};
use hikyaku_event::PublicKey;
use hikyaku_postgres::{Options, PostgresStore, RevocationNews, testing::shared};
use hikyaku_store::{Revocation, Revoked, SessionId, testing::block_on};

const NOW: u64 = 1_700_000_000;

fn nodes() -> [PostgresStore; 2] {
    let (url, schema) = shared();
    let options = Options {
        schema,
        ..Options::new(&url)
    };
    [(); 2].map(|()| PostgresStore::open(&options).unwrap())
}

fn of_key(byte: u8, epoch: u64, until: u64) -> Revocation {
    let key = PublicKey::new([byte; 32]);
    Revocation {
        revoked: Revoked::Key { key, epoch },
        until,
    }
}

#[test]
fn all_nodes_have_one_secret_whoever_is_first() {
    let nodes = nodes();
    let secrets: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = nodes
            .iter()
            .zip([[1; 32], [2; 32]])
            .map(|(node, fresh)| scope.spawn(move || block_on(node.session_secret(fresh)).unwrap()))
            .collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(secrets[0], secrets[1]);
    let again = block_on(nodes[0].session_secret([3; 32])).unwrap();
    assert_eq!(again, secrets[0]);
}

#[test]
fn what_one_node_revokes_the_others_hear_and_find() {
    let [here, there] = nodes();
    let mut news = there.sessions_revoked();
    // Until it listens: what has ended long ago is in no list.
    let probe = of_key(9, 0, 1);
    let listens = |news| matches!(news, Some(Some(RevocationNews::Revoked(_))));
    while !listens(news.next().now_or_never()) {
        block_on(here.revoke_sessions(&probe)).unwrap();
    }
    let session = Revocation {
        revoked: Revoked::Session(SessionId([7; 16])),
        until: NOW + 10,
    };
    let mut kept = vec![
        block_on(here.revoke_sessions(&session)).unwrap(),
        block_on(here.revoke_sessions(&of_key(1, 50, NOW + 20))).unwrap(),
        // By a node whose clock is behind, and that has not heard of the first.
        block_on(there.revoke_sessions(&of_key(1, 40, NOW + 5))).unwrap(),
    ];
    let last = of_key(1, 51, NOW + 20);
    assert_eq!(kept, [session, of_key(1, 50, NOW + 20), last]);
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        match block_on(news.next()).unwrap() {
            RevocationNews::Revoked(one) if one.until > 1 => heard.push(one),
            _ => {}
        }
    }
    assert_eq!(heard, kept);
    kept.remove(1);
    let mut listed = block_on(there.revoked_sessions(NOW)).unwrap();
    listed.sort_unstable_by_key(|one| one.until);
    assert_eq!(listed, kept);
    block_on(here.forget_revoked_sessions(NOW + 10)).unwrap();
    // Long ago, so that only what is gone is not listed.
    assert_eq!(block_on(there.revoked_sessions(0)).unwrap(), [last]);
    assert!(
        block_on(there.revoked_sessions(NOW + 20))
            .unwrap()
            .is_empty()
    );
}
