//! The conformance suite under the sanitizer.

use backend::Backend;
use backend_reference::Reference;
use testkit::conformance::{experts, known, layers, random, recurrent, rows};

use super::{Shared, candidate};
use crate::device::Settings;
use crate::tests::guard::Sanitize;

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

fn sanitized() -> Box<dyn Backend> {
    static DEVICE: Shared = Shared::new();
    candidate(&DEVICE, || Settings { sanitize: Some(Sanitize::Writes), ..Settings::default() })
}

fn bounds_checked() -> Box<dyn Backend> {
    static DEVICE: Shared = Shared::new();
    candidate(&DEVICE, || Settings { sanitize: Some(Sanitize::Bounds), ..Settings::default() })
}

testkit::conformance!(sanitized, reference);

/// f16 activations are more exact than the 8-bit ones that the suite allows for.
#[test]
fn matmuls_are_as_exact_as_f16() {
    random::linear_with_positive_activations(&sanitized, &reference);
}

/// Every kind of kernel, in common formats: release builds do not check bounds.
#[test]
fn no_index_is_out_of_bounds() {
    random::attention_with_different_key_and_value_sizes(&bounds_checked, &reference);
    experts::experts_of_odd_sizes(&bounds_checked, &reference);
    random::linear_with_odd_sizes(&bounds_checked, &reference);
    layers::every_value_of_a_layer_can_be_tapped(&bounds_checked, &reference);
    known::attention_is_causal_and_uses_cached_positions(&bounds_checked);
    known::attention_respects_its_mask(&bounds_checked);
    known::attention_sees_later_rows(&bounds_checked);
    known::attention_reads_a_shared_store(&bounds_checked);
    known::only_output_rows_are_computed(&bounds_checked);
    known::add_bias_broadcasts_one_row(&bounds_checked);
    known::gate_silu(&bounds_checked);
    known::rope_halves(&bounds_checked);
    known::rms_norm_of_heads(&bounds_checked);
    experts::route_is_the_softmax_of_the_top_logits(&bounds_checked);
    known::greedy_tokens_and_top_tokens(&bounds_checked);
    known::attention_sinks_take_weight(&bounds_checked);
    rows::head_linear_in_several_formats(&bounds_checked, &reference);
    rows::row_wise_operations_in_a_chain(&bounds_checked, &reference);
    experts::routers_of_all_kinds(&bounds_checked, &reference);
    experts::experts_with_all_options(&bounds_checked, &reference);
    recurrent::conv_in_steps_of_several_sequences(&bounds_checked, &reference);
    recurrent::linear_attention_in_steps_of_several_sequences(&bounds_checked, &reference);
}

/// The remaining formats and shapes.
#[test]
#[ignore = "takes minutes on software Vulkan"]
fn no_index_of_any_kernel_is_out_of_bounds() {
    random::linear_in_every_format(&bounds_checked, &reference);
    random::attention_of_many_rows(&bounds_checked, &reference);
    random::attention_with_masks(&bounds_checked, &reference);
    random::attention_without_causality(&bounds_checked, &reference);
    experts::experts_in_every_format(&bounds_checked, &reference);
}
