//! Words for schemas, so that a table of fields reads like one.

use serde_json::Value as Json;
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, Array, ArrayBuilder, Object, ObjectBuilder, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{Number, openapi};

pub(super) type Schema = RefOr<openapi::Schema>;

/// A field of an object.
pub(super) struct Field {
    name: String,
    schema: Schema,
    is_required: bool,
}

/// A field that is there.
pub(super) fn must(name: &str, schema: Schema, help: &str) -> Field {
    Field { name: name.to_owned(), schema: described(schema, help), is_required: true }
}

/// A field that may be absent.
pub(super) fn may(name: &str, schema: Schema, help: &str) -> Field {
    Field { is_required: false, ..must(name, schema, help) }
}

/// Fields that change nothing.
pub(super) fn ignored(names: &[&str]) -> Vec<Field> {
    names.iter().map(|name| may(name, any(), "Ignored: it changes nothing here.")).collect()
}

/// Fields that may only ask for nothing.
pub(super) fn refused(names: &[&str]) -> Vec<Field> {
    let nothing = [Json::Null, false.into(), 0.into(), "".into(), Json::Array(Vec::new())];
    let schema: Schema =
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).enum_values(Some(nothing)).into();
    let help = "Not supported: a value that asks for something is an error.";
    names.iter().map(|name| may(name, schema.clone(), help)).collect()
}

/// An object with these fields, of which the first of a name counts. It may have others.
pub(super) fn object(fields: impl IntoIterator<Item = Field>) -> Schema {
    let mut object = Object::new();
    for Field { name, schema, is_required } in fields {
        if object.properties.contains_key(&name) {
            continue;
        }
        if is_required {
            object.required.push(name.clone());
        }
        object.properties.insert(name, schema);
    }
    openapi::Schema::Object(object).into()
}

/// The body of a call: an object in which `null` is the same as absent.
pub(super) fn call(fields: impl IntoIterator<Item = Field>) -> Schema {
    object(fields.into_iter().map(|field| match field.is_required {
        true => field,
        false => Field { schema: nullable(field.schema), ..field },
    }))
}

/// A schema of the document, by name.
pub(super) fn named(name: &str) -> Schema {
    Ref::from_schema_name(name).into()
}

pub(super) fn any() -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).into()
}

pub(super) fn text() -> Schema {
    of_type(Type::String).into()
}

/// A text of at most so many bytes.
pub(super) fn short_text(most: usize) -> Schema {
    of_type(Type::String).max_length(Some(most)).into()
}

/// One of these texts.
pub(super) fn words(words: &[&str]) -> Schema {
    of_type(Type::String).enum_values(Some(words.iter().copied())).into()
}

pub(super) fn flag() -> Schema {
    of_type(Type::Boolean).into()
}

pub(super) fn null() -> Schema {
    of_type(Type::Null).into()
}

pub(super) fn number() -> Schema {
    of_type(Type::Number).into()
}

pub(super) fn number_within(least: f64, most: f64) -> Schema {
    of_type(Type::Number).minimum(Some(least)).maximum(Some(most)).into()
}

pub(super) fn integer() -> Schema {
    of_type(Type::Integer).into()
}

/// An integer that is not less.
pub(super) fn integer_from(least: isize) -> Schema {
    of_type(Type::Integer).minimum(Some(least)).into()
}

/// An integer within these bounds, where there are any.
pub(super) fn integer_between(least: Option<isize>, most: Option<isize>) -> Schema {
    of_type(Type::Integer).minimum(least).maximum(most).into()
}

pub(super) fn integer_within(least: isize, most: usize) -> Schema {
    of_type(Type::Integer).minimum(Some(least)).maximum(Some(Number::UInt(most))).into()
}

pub(super) fn list(item: Schema) -> Schema {
    Array::new(item).into()
}

/// A list of so many items.
pub(super) fn list_within(least: usize, most: usize, item: Schema) -> Schema {
    ArrayBuilder::new().items(item).min_items(Some(least)).max_items(Some(most)).build().into()
}

/// An object with any names, whose values are alike.
pub(super) fn map(value: Schema) -> Schema {
    of_type(Type::Object).additional_properties(Some(AdditionalProperties::RefOr(value))).into()
}

/// Any object.
pub(super) fn free() -> Schema {
    map(any())
}

/// One of these or several.
pub(super) fn either<const N: usize>(schemas: [Schema; N]) -> Schema {
    schemas.into_iter().fold(AnyOfBuilder::new(), AnyOfBuilder::item).into()
}

/// The same or `null`.
pub(super) fn nullable(schema: Schema) -> Schema {
    use openapi::Schema::{AnyOf as Union, Array, Object};
    let or_null = |kind| match kind {
        SchemaType::Type(kind) => SchemaType::Array(vec![kind, Type::Null]),
        any_or_more => any_or_more,
    };
    match schema {
        RefOr::T(Object(mut object)) => {
            object.schema_type = or_null(object.schema_type);
            object
                .enum_values
                .iter_mut()
                .filter(|all| !all.contains(&Json::Null))
                .for_each(|all| all.push(Json::Null));
            Object(object).into()
        }
        RefOr::T(Array(mut array)) => {
            array.schema_type = or_null(array.schema_type);
            Array(array).into()
        }
        RefOr::T(Union(mut union)) => {
            union.items.push(null());
            Union(union).into()
        }
        other => either([other, null()]),
    }
}

/// The same with the value of absent fields.
pub(super) fn with_default(mut schema: Schema, value: Json) -> Schema {
    match &mut schema {
        RefOr::T(openapi::Schema::Object(object)) => object.default = Some(value),
        RefOr::T(openapi::Schema::Array(array)) => array.default = Some(value),
        RefOr::T(openapi::Schema::AnyOf(any)) => any.default = Some(value),
        _ => {}
    }
    schema
}

fn described(mut schema: Schema, help: &str) -> Schema {
    let description = Some(help.to_owned()).filter(|help| !help.is_empty());
    match &mut schema {
        RefOr::Ref(reference) => help.clone_into(&mut reference.description),
        RefOr::T(openapi::Schema::Object(object)) => object.description = description,
        RefOr::T(openapi::Schema::Array(array)) => array.description = description,
        RefOr::T(openapi::Schema::AnyOf(any)) => any.description = description,
        RefOr::T(_) => {}
    }
    schema
}

fn of_type(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(kind)
}
