//! The conformance tests of backends, mounted with [`conformance!`](crate::conformance!).
//!
//! [`known`] has hand-computed answers, and so has [`rows`] of row-wise operations; [`random`] compares single operations
//! with the reference backend, [`experts`] does both for mixtures of experts, [`layers`] compares whole layers, and
//! [`draws`] compares tokens that are drawn with their definition, and [`errors`] checks what must be refused.

pub mod draws;
pub mod encoders;
pub mod errors;
pub mod experts;
pub mod known;
pub mod layers;
mod net;
pub mod random;
pub mod recurrent;
pub mod rows;
pub mod seams;

use backend::Backend;

/// Creates a backend without a model.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Backend>;

/// Mounts the suite: `conformance!(candidate, oracle)`. Both are expressions of a type `Fn() -> Box<dyn Backend>`, of which
/// the first may `return` from the test where there is no such backend; the oracle is the reference backend.
#[macro_export]
macro_rules! conformance {
    ($candidate:expr, $oracle:expr) => {
        $crate::conformance!(@known $candidate;
            embed_looks_up_rows
            linear_sums_over_contiguous_rows
            rms_norm_uses_eps_and_does_not_clip
            rope_interleaved
            rope_halves
            rope_with_scale_and_factors
            rope_with_yarn_and_magnitude
            rope_with_long_factors
            rope_copies_the_other_columns
            attention_is_causal_and_uses_cached_positions
            attention_ignores_later_positions
            attention_keeps_nan_to_rows_that_see_it
            attention_keeps_nan_out_of_a_window
            attention_rounds_values_to_fp8
            attention_with_grouped_query_heads
            attention_applies_softmax_to_scaled_scores
            attention_caps_scores
            attention_sinks_take_weight
            attention_respects_its_mask
            attention_sees_later_rows
            attention_reads_a_shared_store
            gate_silu
            gate_gelu
            rms_norm_of_heads
            scale_multiplies_by_a_factor
            add_does_not_clip
            add_bias_broadcasts_one_row
            only_output_rows_are_computed
            greedy_tokens_and_top_tokens
            steps_follow_each_other
            rows_with_invalid_logits_have_no_token
            candidates_are_the_best_tokens
        );
        $crate::conformance!(@seams $candidate;
            given_embeddings_are_those_of_tokens
            further_results_are_read
            rows_of_a_span_see_each_other
            blocks_move_between_caches
        );
        $crate::conformance!(@draws $candidate;
            draws_give_the_tokens_of_their_definition
            draws_of_the_whole_vocabulary
            draws_with_many_biases
        );
        $crate::conformance!(@rows $candidate;
            layer_norm_subtracts_the_mean
            layer_norm_of_a_large_mean
            l2_norm_divides_by_the_length
            norms_have_no_weight
            norms_of_groups_have_a_weight_per_column
            softcap_is_nearly_linear_then_flat
            activations
            a_gate_of_one_column_applies_to_the_row
            a_gate_with_a_limit
            mul_weight_repeats
            scale_by_position_depends_on_the_interval
            head_linear_uses_a_matrix_per_head
            slice_takes_columns_of_each_head
            join_alternates_heads
        );
        $crate::conformance!(@rows $candidate, $oracle;
            head_linear_in_several_formats
            head_linear_of_large_heads
            head_linear_of_many_heads
            row_wise_operations_in_a_chain
            norms_of_many_columns
        );
        $crate::conformance!(@recurrent $candidate;
            conv_continues_over_steps
            linear_attention_of_one_column
            linear_attention_shares_key_heads
            a_new_sequence_has_no_state
        );
        $crate::conformance!(@recurrent $candidate, $oracle;
            conv_in_steps_of_several_sequences
            linear_attention_in_steps_of_several_sequences
        );
        $crate::conformance!(@encoders $candidate;
            embed_looks_up_positions
            pool_represents_sequences
            attention_with_alibi
            later_rows_need_one_step
        );
        $crate::conformance!(@experts $candidate;
            route_is_the_softmax_of_the_top_logits
            route_of_nan_or_infinity_is_nan
            route_by_the_softmax_over_all
            route_by_sigmoids_with_a_bias
            route_divides_by_at_least_a_small_number
            route_uses_the_best_groups
            every_router_reports_invalid_logits
            experts_are_weighted_by_routes
            experts_add_biases
            experts_without_gates
            experts_scale_products
            experts_limit_gates_and_ups
        );
        $crate::conformance!(@experts $candidate, $oracle;
            routers_of_all_kinds
            experts_in_every_format
            experts_of_odd_sizes
            experts_with_many_columns
            experts_with_all_options
        );
        $crate::conformance!(@random $candidate, $oracle;
            linear_in_every_format
            linear_with_odd_sizes
            linear_of_three_weights
            gated_linear_unit_of_odd_sizes
            embed_looks_up_quantised_rows
            linear_with_many_columns
            linear_with_many_outputs
            linear_with_weights_beyond_f16
            attention_over_several_sequences_and_scattered_blocks
            attention_of_many_rows
            attention_in_every_cache_type
            attention_with_different_key_and_value_sizes
            attention_with_masks
            attention_of_single_rows_after_many_positions
            attention_of_single_rows_after_repeated_blocks
            attention_without_causality
            attention_with_capped_scores_and_sinks
        );
        $crate::conformance!(@layers $candidate, $oracle;
            odd_layer_in_steps_of_all_sizes
            layer_with_blocks_of_256
            layer_of_two_formats
            wide_layer
            tapped_keys_do_not_change_the_result
            every_value_of_a_layer_can_be_tapped
            eight_sequences_in_one_step
        );
        $crate::conformance!(@layers $candidate;
            nan_rows_affect_no_other_sequence
            nan_weights_affect_one_output
        );
        $crate::conformance!(@errors $candidate;
            weights_must_exist_and_match
            steps_must_fit
            values_must_be_tapped
            the_kv_layout_must_match_the_graph
            a_too_large_store_is_refused
        );
    };
    (@$module:ident $candidate:expr, $oracle:expr; $($name:ident)*) => {
        $(#[test] fn $name() { $crate::conformance::$module::$name(&$candidate, &$oracle); })*
    };
    (@$module:ident $candidate:expr; $($name:ident)*) => {
        $(#[test] fn $name() { $crate::conformance::$module::$name(&$candidate); })*
    };
}

#[cfg(test)]
mod tests {
    /// A test that is not mounted would never run.
    #[test]
    fn every_test_is_mounted() {
        let mounted: Vec<&str> = include_str!("conformance.rs").split_whitespace().collect();
        let files = [
            include_str!("conformance/draws.rs"),
            include_str!("conformance/encoders.rs"),
            include_str!("conformance/errors.rs"),
            include_str!("conformance/experts.rs"),
            include_str!("conformance/known.rs"),
            include_str!("conformance/layers.rs"),
            include_str!("conformance/random.rs"),
            include_str!("conformance/rows.rs"),
        ];
        let functions = files.iter().flat_map(|text| text.split("\npub fn ").skip(1));
        let tests = functions.filter_map(|text| text.split_once("(make: Make<'_>").map(|(name, _)| name));
        let tests: Vec<&str> =
            tests.filter(|name| !name.contains(|c: char| c == '(' || c.is_whitespace())).collect();
        assert!(tests.len() > 40, "{tests:?}");
        // For backends that do not round activations to 8 bits; they run it themselves.
        let optional = ["linear_with_positive_activations"];
        for test in tests.into_iter().filter(|test| !optional.contains(test)) {
            assert!(mounted.contains(&test), "{test} is not in the list of `conformance!`");
        }
    }
}
