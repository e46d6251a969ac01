//! The conformance suite with every step watched.

use backend::Backend;
use backend_reference::Reference;
use testkit::conformance::{known, layers, random};

use super::{Shared, candidate};
use crate::device::Settings;
use crate::guard::Watch;

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

fn watched() -> Box<dyn Backend> {
    static DEVICE: Shared = Shared::new();
    candidate(&DEVICE, || Settings { watch: Some(Watch::Writes), ..Settings::default() })
}

fn watched_closely() -> Box<dyn Backend> {
    static DEVICE: Shared = Shared::new();
    candidate(&DEVICE, || Settings { watch: Some(Watch::Indices), ..Settings::default() })
}

testkit::conformance!(watched(), reference());

/// Matrix units have activations and weights in f16; the CPU has the former in 8 bits.
#[test]
fn products_are_as_exact_as_f16() {
    random::linear_with_positive_activations(&watched, &reference);
}

/// All kinds of kernels but those of rare formats: release builds have no checks of indices.
#[test]
fn no_index_is_beyond_the_end() {
    random::attention_with_values_of_another_width(&watched_closely, &reference);
    random::experts_of_odd_sizes(&watched_closely, &reference);
    random::linear_with_odd_sizes(&watched_closely, &reference);
    layers::every_value_of_a_layer_can_be_tapped(&watched_closely, &reference);
    known::attention_is_causal_and_counts_positions_from_the_cache(&watched_closely);
    known::attention_sees_its_window(&watched_closely);
    known::attention_reads_a_store_of_another(&watched_closely);
    known::only_output_rows_are_computed(&watched_closely);
    known::add_bias_adds_one_row_to_each(&watched_closely);
    known::gates_go_through_silu(&watched_closely);
    known::rope_turns_halves(&watched_closely);
    known::rms_norm_of_heads(&watched_closely);
    known::routes_are_the_softmax_of_the_largest(&watched_closely);
    known::tokens_are_chosen_where_logits_are(&watched_closely);
}

/// The others, with all formats.
#[test]
#[ignore = "takes minutes on software Vulkan"]
fn no_index_of_any_kernel_is_beyond_the_end() {
    random::linear_in_every_format(&watched_closely, &reference);
    random::attention_of_many_rows(&watched_closely, &reference);
    random::attention_in_windows(&watched_closely, &reference);
    random::experts_in_every_format(&watched_closely, &reference);
}
