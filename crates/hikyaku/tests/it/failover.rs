//! The database's server fails while several nodes serve, and a replica takes its place.

use std::{
    collections::HashSet,
    sync::{Mutex, atomic::Ordering},
    thread,
};

use hikyaku_postgres::testing::Cluster;

use crate::{
    nodes::{Load, Subscriber, connect, note, publish, start_on},
    program::Place,
};

const NODES: usize = 3;

#[test]
fn three_nodes_go_on_where_a_replica_has_taken_over() {
    let mut primary = Cluster::start(&["synchronous_standby_names = '*'"]);
    let mut replica = primary.replica(&["synchronous_standby_names = ''"]);
    let (one, other) = (primary.port(), replica.port());
    let url = format!(
        "postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres\
         ?target_session_attrs=read-write"
    );
    let places = [(); NODES].map(|()| Place::new());
    let nodes = places.each_ref().map(|place| start_on(place, &url, &[]));
    let addresses = nodes
        .each_ref()
        .map(|node| Mutex::new(node.address.clone()));
    let mut subscribers = nodes
        .each_ref()
        .map(|node| Subscriber::subscribe(&node.address));

    let load = Load::default();
    let accepted: Vec<String> = thread::scope(|scope| {
        let publishers: Vec<_> = (1..)
            .zip(&addresses)
            .map(|(author, address)| {
                let load = &load;
                scope.spawn(move || load.publish(author, address))
            })
            .collect();
        load.wait_for(60);
        primary.kill();
        replica.promote();
        load.wait_for(60);
        load.stop.store(true, Ordering::Relaxed);
        publishers
            .into_iter()
            .flat_map(|publisher| publisher.join().unwrap())
            .collect()
    });
    assert!(accepted.len() >= 120);
    let last = note(99, 0);
    let mut socket = connect(&nodes[0].address).unwrap();
    while publish(&mut socket, &last) != Some(true) {}

    let stored = replica.sql("SELECT encode(id, 'hex') FROM hikyaku.events ORDER BY seq");
    let stored: Vec<&str> = stored.lines().collect();
    let distinct: HashSet<&str> = stored.iter().copied().collect();
    assert_eq!(stored.len(), distinct.len());
    assert!(
        accepted.iter().all(|id| distinct.contains(id.as_str())),
        "an event answered OK is gone"
    );
    for subscriber in &mut subscribers {
        // Everything, once, in the order of the commits: no subscription ended, and nothing was missed.
        assert_eq!(subscriber.until(&last), stored);
    }
    for node in nodes {
        node.stop();
    }
}
