//! The tests that every backend mounts with [`conformance!`](crate::conformance!).
//!
//! [`known`] holds answers worked out by hand; [`random`] compares with the reference backend within
//! the limits of one operation, [`layers`] a layer as a whole; [`errors`] checks what must be refused.

pub mod errors;
pub mod known;
pub mod layers;
mod net;
pub mod random;

use backend::Backend;

/// Makes an instance of a backend, without a model.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Backend>;

/// Mounts the suite: `conformance!(candidate, oracle)`, both expressions that make a
/// `Box<dyn Backend>`; the oracle is the reference backend.
#[macro_export]
macro_rules! conformance {
    ($candidate:expr, $oracle:expr) => {
        $crate::conformance!(@known $candidate;
            embed_takes_the_tokens_rows
            linear_sums_over_contiguous_rows
            rms_norm_uses_its_eps_and_keeps_large_values
            rope_turns_neighbours_by_the_papers_angles
            rope_turns_halves
            rope_scales_positions_and_divides_by_factors
            rope_leaves_the_columns_beyond_its_own
            attention_is_causal_and_counts_positions_from_the_cache
            attention_does_not_see_what_comes_later
            attention_shares_key_heads_in_groups
            attention_weighs_by_softmax_of_scaled_scores
            attention_sees_its_window
            attention_reads_a_store_of_another
            gates_go_through_silu
            gates_go_through_gelu
            rms_norm_of_heads
            scale_multiplies
            routes_are_the_softmax_of_the_largest
            routes_of_what_is_no_number_are_none
            experts_are_weighed_by_routes
            add_clips_nothing
            add_bias_adds_one_row_to_each
            only_output_rows_are_computed
            tokens_are_chosen_where_logits_are
            no_token_is_chosen_where_there_is_none
        );
        $crate::conformance!(@random $candidate, $oracle;
            linear_in_every_format
            linear_with_odd_sizes
            linear_with_many_columns
            linear_with_numbers_beyond_f16
            attention_over_several_chunks_sequences_and_scattered_pages
            attention_of_many_rows
            attention_with_values_of_another_width
            attention_in_windows
            experts_in_every_format
            experts_of_odd_sizes
        );
        $crate::conformance!(@layers $candidate, $oracle;
            an_odd_layer_in_steps_of_all_sizes
            a_layer_of_blocks
            a_wide_layer
            queries_and_keys_turn_apart
            every_value_of_a_layer_can_be_tapped
            eight_sequences_in_one_step
        );
        $crate::conformance!(@layers $candidate;
            rows_that_are_no_numbers_spoil_no_others
            weights_that_are_no_numbers_spoil_one_output
        );
        $crate::conformance!(@errors $candidate;
            weights_must_be_there_and_fit
            steps_must_fit
            values_must_be_tapped
            the_layout_must_be_the_graphs
            a_store_too_large_is_refused
        );
    };
    (@$module:ident $candidate:expr, $oracle:expr; $($name:ident)*) => {
        $(#[test] fn $name() { $crate::conformance::$module::$name(&|| $candidate, &|| $oracle); })*
    };
    (@$module:ident $candidate:expr; $($name:ident)*) => {
        $(#[test] fn $name() { $crate::conformance::$module::$name(&|| $candidate); })*
    };
}

#[cfg(test)]
mod tests {
    /// What the suite does not mount is never run.
    #[test]
    fn every_test_is_mounted() {
        let mounted: Vec<&str> = include_str!("conformance.rs").split_whitespace().collect();
        let files = [
            include_str!("conformance/errors.rs"),
            include_str!("conformance/known.rs"),
            include_str!("conformance/layers.rs"),
            include_str!("conformance/random.rs"),
        ];
        let functions = files.iter().flat_map(|text| text.split("\npub fn ").skip(1));
        let tests = functions.filter_map(|text| text.split_once("(make: Make<'_>").map(|(name, _)| name));
        let tests: Vec<&str> =
            tests.filter(|name| !name.contains(|c: char| c == '(' || c.is_whitespace())).collect();
        assert!(tests.len() > 40, "{tests:?}");
        // Promised by backends that do not round activations to 8 bits; these run it by themselves.
        let of_some = ["linear_with_positive_activations"];
        for test in tests.into_iter().filter(|test| !of_some.contains(test)) {
            assert!(mounted.contains(&test), "{test} is not in the list of `conformance!`");
        }
    }
}
