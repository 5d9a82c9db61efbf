//! The suite that every store must pass: one claim per test, so that a failing one has a name.
//!
//! Each module has the claims on one subject; [`store_suite`](crate::store_suite) makes a test of
//! each. A claim gets an empty store of its own.

pub mod batches;
pub mod changes;
pub mod counting;
pub mod deletions;
pub mod expiry;
mod filters;
pub mod limits;
pub mod matching;
pub mod ranges;
pub mod rights;
pub mod snapshots;
mod subject;
pub mod tags;
pub mod vanishing;
pub mod versions;

/// Calls a macro with every claim of the suite: `module: claim, claim, ...;` per subject, after the
/// tokens given.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_claims {
    ($callback:path, $($given:tt)*) => {
        $callback! {
            { $($given)* }
            matching: newest_come_first_and_ties_go_to_the_lowest_id, ties_go_to_the_lowest_id_across_the_limit, order_does_not_depend_on_the_order_of_writing, since_and_until_are_inclusive, times_beyond_32_bits_are_kept, kinds_go_to_65535, empty_lists_match_nothing, conditions_are_an_and, events_are_found_by_id, five_thousand_authors_in_one_filter, answers_carry_the_event_as_it_came;
            tags: two_tag_names_are_an_and, an_event_that_matches_two_values_comes_once, strange_values_are_found, letter_case_matters, every_letter_is_a_name, e_and_p_values_need_not_be_hex, only_the_first_value_counts, longer_names_are_answered_or_refused, thousands_of_tags_in_one_event, thousands_of_values_in_one_filter;
            limits: hints_are_exact, the_clients_limit_is_never_passed, our_cap_is_passed_to_finish_a_run, twice_our_cap_is_the_end, a_run_ends_at_the_clients_limit, the_default_limit_is_for_filters_without_one, a_limit_of_zero_asks_nothing, each_filter_has_its_own_limit, an_event_of_several_filters_comes_once, what_another_filter_brings_is_not_missing, hidden_events_use_up_no_limit;
            counting: counts_ignore_limits, an_event_of_several_filters_counts_once, counts_follow_every_change;
            ranges: ranges_hold_their_first_key_and_not_their_end, bounds_need_not_be_stored, keys_are_those_of_the_filter_without_its_limit, keys_are_those_a_reader_may_see;
            rights: private_kinds_are_for_their_parties, unreadable_events_use_up_no_limit, unreadable_events_are_no_part_of_a_run;
            versions: regular_kinds_keep_every_event, replaceable_kinds_keep_the_newest, addressable_kinds_keep_the_newest_per_d, ephemeral_kinds_are_refused, versions_of_one_time_go_to_the_lowest_id, the_stored_version_is_a_duplicate, a_missing_d_equals_an_empty_one, strange_d_values_are_addresses_of_their_own, a_replaced_version_returns_only_without_the_newer, a_hidden_version_still_supersedes;
            deletions: a_deletion_by_id_removes_and_keeps_away, a_deletion_by_id_reaches_newer_events, only_the_author_deletes, a_deletion_by_address_reaches_every_version_up_to_its_time, a_deletion_by_address_may_come_first, other_addresses_delete_nothing, deleting_one_version_by_id_leaves_the_others, deleting_a_deletion_does_nothing, one_deletion_names_many_things, a_deletion_of_nothing_is_stored, only_kind_5_deletes, a_recipient_deletes_gift_wraps, a_recipient_deletes_nothing_but_gift_wraps, a_deletion_is_in_force_while_it_is_stored, hidden_events_are_deleted_too;
            vanishing: everything_up_to_the_request_goes_and_stays_away, a_request_may_come_first, requests_to_vanish_stay, a_request_to_others_does_nothing, only_kind_62_vanishes, gift_wraps_to_the_key_go_too, a_vanished_deletion_is_no_longer_in_force, a_request_is_in_force_while_it_is_stored, hidden_events_vanish_too;
            expiry: expired_events_are_refused, expired_events_are_absent_before_the_sweep, expired_events_use_up_no_limit, a_sweep_removes_what_has_expired, a_sweep_leaves_deletions_and_requests_to_vanish, an_expired_version_stands_until_the_sweep;
            changes: an_event_is_hidden_until_each_hider_takes_it_back, changes_to_what_is_not_there_are_absent, what_the_operator_removed_may_return, a_removal_alone_keeps_no_id_away, contains_answers_for_each_id, duplicates_change_nothing;
            batches: outcomes_come_in_order, sequences_grow, an_event_twice_in_a_batch_is_stored_once, versions_in_one_batch_leave_the_newest, a_deletion_reaches_its_own_batch, a_request_to_vanish_reaches_its_own_batch, changes_reach_their_own_batch, a_large_batch_is_stored_whole, racing_writers_agree;
            snapshots: a_cursor_sees_nothing_stored_later, a_cursor_survives_removals, answers_do_not_depend_on_the_budget, an_empty_store_answers, the_feed_brings_every_stored_event_in_order, answer_and_feed_leave_no_gap_and_no_double, what_the_feed_brings_is_visible, the_feed_ends_when_the_store_closes, dropped_feeds_and_futures_do_no_harm;
        }
    };
}

/// Makes the tests of the suite for a store: one per claim, in a module per subject.
///
/// ```
/// mod suite {
///     hikyaku_store::store_suite!(|| Box::new(hikyaku_store::testing::NaiveStore::new()));
/// }
/// ```
///
/// The argument is an expression that can be called without arguments and returns a
/// `Box<dyn EventStore>`; it is called once per test and may be used in any module (write paths from
/// `crate`).
#[macro_export]
macro_rules! store_suite {
    ($make:expr) => {
        $crate::__store_claims! { $crate::__store_tests, $make }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __store_tests {
    ({ $make:expr } $($module:ident: $($claim:ident),+;)+) => {
        $(mod $module {
            $crate::__store_tests! { @tests $make, $module, $($claim),+ }
        })+
    };
    (@tests $make:expr, $module:ident, $($claim:ident),+) => {
        $(#[test]
        fn $claim() {
            let make = $make;
            let store: Box<dyn $crate::EventStore> = make();
            $crate::testing::suite::$module::$claim(store);
        })+
    };
}
