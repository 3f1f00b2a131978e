//! What every driver must do, through the store's public seam. A driver's own file calls `conformance!` with a function
//! that makes a fresh [`super::bed::Bed`].

pub mod catalogue;
pub mod claims;
pub mod compensations;
pub mod lists;
pub mod races;
pub mod registering;
pub mod revisions;
pub mod settling;
pub mod tally;

/// Makes a test of each promise, on the bed that the function makes.
macro_rules! conformance {
    ($bed:path) => {
        $crate::store::conformance::conformance! { @all $bed:
            registering: [
                what_is_registered_is_stored_byte_for_byte,
                the_same_registration_again_is_the_same_timer,
                a_late_duplicate_revives_nothing,
                a_past_due_time_runs_at_once,
                any_delay_is_due_at_its_own_millisecond,
                a_sum_beyond_the_last_year_stores_nothing,
                the_same_again_is_the_same_timer_to_the_last_day,
                a_delay_counts_from_the_stores_clock,
                due_timers_come_in_order_and_in_pages,
            ],
            settling: [
                a_close_writes_its_compensations_once,
                nothing_settles_before_it_is_due,
                a_skip_says_why,
                a_retry_is_a_later_attempt,
                a_failed_timer_is_still_the_business_s,
                follow_ups_are_registered_with_the_decision,
                a_decision_that_lost_leaves_nothing,
                what_a_plugin_says_is_in_the_audit,
            ],
            races: [
                actions_answer_with_the_state_they_find,
                an_expected_version_guards_an_action,
                another_namespace_s_timer_is_not_found,
                rescheduling_and_firing_move_the_due_time,
                resolve_or_close_but_never_both,
                a_resolve_in_the_same_batch_goes_first,
                a_resolve_that_came_first_is_remembered,
                every_audit_is_whole_after_a_storm,
            ],
            claims: [
                a_claim_is_fenced_by_its_version,
                a_firing_timer_waits_for_its_outcome,
                a_released_claim_burns_no_attempt,
                the_backlog_is_taken_oldest_first,
                the_backlog_leaves_what_is_not_overdue,
                a_lapsed_lease_is_taken_over,
                leases_that_lapse_in_a_row_are_poison,
            ],
            compensations: [
                a_claimed_compensation_is_one_run_s_alone,
                a_lapsed_run_uses_its_attempt_up,
                a_retry_waits_and_a_blameless_one_burns_nothing,
                a_dead_compensation_is_redriven_by_a_person,
                many_are_redriven_by_a_filter,
                lanes_know_when_they_have_work,
                compensations_are_listed_newest_first,
            ],
            lists: [
                pages_meet_without_a_gap_or_a_repeat,
                filters_are_exact,
                expired_is_computed,
                a_rare_label_is_found_page_by_page,
            ],
            tally: [
                counts_are_by_state_and_stop_at_their_cap,
                a_forecast_counts_what_runs_in_each_step,
                rising_pages_are_the_falling_ones_turned_round,
                keys_are_found_by_how_they_start,
            ],
            revisions: [
                a_revision_is_deleted_once_nothing_needs_it,
                a_plugin_is_deleted_once_no_revision_has_it,
                a_redrive_may_go_to_the_active_revision,
                what_stands_under_a_revision_is_read_up_to_a_bound,
            ],
            catalogue: [
                the_catalogue_rises_with_each_change,
                the_same_definition_makes_no_new_revision,
                a_type_needs_its_namespace_s_plugin,
                keys_are_found_by_their_hash_until_revoked,
                a_pause_stands_until_it_ends,
                what_is_revoked_stays_so_until_it_is_restored,
                what_is_sealed_is_its_namespace_s_own,
                a_ping_writes,
            ],
        }
    };
    (@all $bed:path: $($room:ident: [$($test:ident,)*],)*) => {
        $(mod $room {
            $(
                #[tokio::test]
                async fn $test() {
                    $crate::store::conformance::$room::$test($bed().await).await;
                }
            )*
        })*
    };
}
pub(super) use conformance;
