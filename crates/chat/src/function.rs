//! Filters and methods with the parameters of Python, charged before they run.

use minijinja::functions::Function as Callable;
use minijinja::value::{FunctionArgs, FunctionResult, Kwargs, ValueKind};
use minijinja::{Error, State, Value};

use crate::limits::{Budget, ITEM, Use, failed};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    Free,
    /// The arguments are read, and the first, if it is text, so many times.
    Text(usize),
    /// The arguments are read, and each character of the first may become an item.
    List,
    /// Each item of the first argument may be compared with all parts of the others.
    Compare,
}

/// A filter, or a method whose first argument is the string.
pub(crate) struct Function {
    parameters: Vec<(&'static str, Option<Value>)>,
    /// The callee expects parameters from this index on by name.
    named_from: usize,
    cost: Cost,
    callee: Value,
}

impl Function {
    /// `signature` is that of Python, such as `s, width=80`, with defaults in JSON. The callee expects parameters after
    /// `*` by name. Without a signature, it takes all arguments as they are.
    pub(crate) fn new<F, Rv, Args>(signature: &'static str, cost: Cost, callee: F) -> Function
    where
        F: Callable<Rv, Args>,
        Rv: FunctionResult,
        Args: for<'a> FunctionArgs<'a>,
    {
        let parameters = signature.split(", ").filter(|name| !matches!(*name, "" | "*"));
        let parameters = parameters.map(|parameter| match parameter.split_once('=') {
            Some((name, default)) => (name, Some(serde_json::from_str(default).expect("valid JSON"))),
            None => (parameter, None),
        });
        let named_from = signature.split(", ").position(|name| name == "*").unwrap_or(usize::MAX);
        Function { parameters: parameters.collect(), named_from, cost, callee: Value::from_function(callee) }
    }

    pub(crate) fn call(&self, state: &mut State, mut args: Vec<Value>) -> Result<Value, Error> {
        if !self.parameters.is_empty() {
            args = self.bind(args)?;
        }
        self.charge(Budget::of(state), &args)?;
        if args.len() > self.named_from {
            let named = args.split_off(self.named_from);
            let names = self.parameters[self.named_from..].iter().map(|(name, _)| *name);
            args.push(Kwargs::from_iter(names.zip(named)).into());
        }
        self.callee.call(state, &args)
    }

    /// The value of each parameter, given by position, by name or by default.
    fn bind(&self, mut args: Vec<Value>) -> Result<Vec<Value>, Error> {
        let named = args.pop_if(|last| last.is_kwargs()).map(Kwargs::try_from).transpose()?;
        if args.len() > self.parameters.len() {
            return Err(failed(format!(
                "{} arguments, expected at most {}",
                args.len(),
                self.parameters.len()
            )));
        }
        for (name, default) in &self.parameters[args.len()..] {
            let given =
                named.as_ref().filter(|named| named.has(name)).map(|named| named.get(name)).transpose()?;
            let value = given.or_else(|| default.clone());
            args.push(value.ok_or_else(|| failed(format!("the argument `{name}` is missing")))?);
        }
        named.map_or(Ok(()), |named| named.assert_all_used())?;
        Ok(args)
    }

    fn charge(&self, budget: &mut Budget, args: &[Value]) -> Result<(), Error> {
        let size = |value: &Value| value.as_str().map(str::len).or(value.len()).unwrap_or(1);
        let Some((first, others)) = args.split_first() else { return Ok(()) };
        let text = first.as_str().map_or(0, str::len);
        let bytes = match self.cost {
            Cost::Free => return Ok(()),
            Cost::Compare => {
                return budget.charge(size(first).saturating_mul(others.iter().map(size).sum()));
            }
            Cost::Text(times) => text.saturating_mul(times),
            Cost::List => {
                iterable(first)?;
                text.saturating_mul(ITEM)
            }
        };
        args.iter().try_for_each(|arg| budget.charge_for(arg, Use::Make))?;
        // An integer in the second place is a width or a number of items.
        let items = others.first().and_then(Value::as_usize).unwrap_or(0);
        budget.charge(bytes.saturating_add(items.saturating_mul(ITEM)))
    }
}

/// Rejects `none`, which minijinja treats as empty.
pub(crate) fn iterable(value: &Value) -> Result<(), Error> {
    match value.kind() {
        kind @ (ValueKind::None | ValueKind::Number | ValueKind::Bool) => {
            Err(failed(format!("a value of type {kind} is not iterable")))
        }
        _ => Ok(()),
    }
}
