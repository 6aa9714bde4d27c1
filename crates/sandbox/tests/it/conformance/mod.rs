//! What every engine promises, stated once and run for each of them.

mod commands;
mod deadlines;
mod doors;
mod ground;
mod isolation;
mod lifetime;
mod limits;
mod streams;
mod transfer;

pub use ground::{Cluster, Ground};

/// Makes a test of each function for each engine, so that a test's name says which one fails.
macro_rules! conformance {
    ($($area:ident::$name:ident,)*) => {
        mod native {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$area::$name(&super::Ground::native()).await;
            })*
        }

        mod docker {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(ground) = super::Ground::docker().await {
                    super::$area::$name(&ground).await;
                }
            })*
        }

        mod kubernetes {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(ground) = super::Ground::kubernetes().await {
                    super::$area::$name(&ground).await;
                    ground.leave();
                }
            })*
        }
    };
}

conformance! {
    commands::a_sandbox_starts_runs_and_goes,
    commands::codes_and_signals_come_back,
    commands::what_cannot_start_says_why,
    commands::settings_of_command_sandbox_and_image_are_layered,
    commands::commands_start_clean,
    commands::real_programs_work,
    commands::commands_run_side_by_side,
    commands::long_arguments_and_environments_pass,
    deadlines::a_deadline_ends_the_whole_tree_and_nothing_else,
    deadlines::a_fork_bomb_meets_its_deadline,
    deadlines::a_crowd_meets_its_deadline,
    deadlines::a_call_nobody_waits_for_ends_its_command,
    deadlines::kill_all_leaves_only_the_init,
    deadlines::a_command_cannot_shake_its_supervisor_off,
    isolation::ordinary_users_are_just_that,
    isolation::root_owns_its_files_and_no_more,
    isolation::the_init_is_out_of_reach,
    isolation::there_is_no_network_unless_asked_for,
    isolation::an_allow_list_is_refused_by_name,
    lifetime::a_dropped_sandbox_ends,
    lifetime::many_start_side_by_side,
    lifetime::hostile_trees_are_removed,
    lifetime::names_that_look_alike_stay_apart,
    lifetime::what_is_destroyed_takes_no_more_commands,
    limits::the_memory_limit_holds_and_is_reported,
    limits::the_process_limit_holds,
    limits::the_processor_limit_holds,
    limits::writing_more_than_allowed_ends_the_sandbox,
    streams::output_is_split_or_merged,
    streams::input_arrives_and_is_closed_when_empty,
    streams::a_gigabyte_of_output_is_counted_not_kept,
    streams::a_daemon_that_keeps_the_streams_open_does_not_hold_the_command,
    transfer::files_make_the_round_trip,
    transfer::much_data_passes_in_both_directions,
    transfer::hostile_archives_stay_in_their_directory,
    transfer::broken_archives_are_errors,
    transfer::downloads_are_bounded_and_follow_nothing,
    transfer::account_files_may_be_anything,
    doors::a_door_leads_to_a_service_of_the_host,
    doors::a_door_closes_with_its_service_and_its_sandbox,
}
