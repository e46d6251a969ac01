//! How tokens are chosen: the methods that all builders have.

use std::fmt;

use engine::Processor;

/// A closure that changes the logits of each token.
#[derive(Clone)]
pub(crate) struct Hook<F>(pub(crate) F);

impl<F: FnMut(&[u32], &mut [f32]) + Clone + Send + 'static> Processor for Hook<F> {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        (self.0)(tokens, logits);
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

impl<F> fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// Adds the methods to the type of a builder with a field `request`.
macro_rules! settings_methods {
    ($builder:ty) => {
        engine::param_setters!($builder, request.params);

        /// Parameters out of range are errors of the first token.
        impl $builder {
            /// All parameters at once, also those that have no method here.
            pub fn params(mut self, params: engine::Params) -> Self {
                self.request.params = params;
                self
            }

            /// Rules out what is not in the language of a [`Model::grammar`](crate::Model::grammar) of this model. The text ends where
            /// the grammar ends it, unless its tokens are spent before. In a chat, a model that reasons may do so before.
            pub fn grammar(mut self, grammar: &crate::Grammar) -> Self {
                self.request.processors.push(Box::new(grammar.constraint()));
                self
            }

            /// Changes the logits of each token before one is sampled: `hook` gets the tokens so far, prompt included, and
            /// one logit per token of the vocabulary. Minus infinity rules a token out. Hooks run in the order of the calls;
            /// each text has its own copy. A hook runs within a step, so that it must not use the model.
            pub fn sampler(mut self, hook: impl FnMut(&[u32], &mut [f32]) + Clone + Send + 'static) -> Self {
                self.request.processors.push(Box::new(crate::settings::Hook(hook)));
                self
            }
        }
    };
}
pub(crate) use settings_methods;
