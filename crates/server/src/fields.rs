//! Bodies of calls: typed groups of fields, from which the OpenAPI document derives. Absent and `null` are the same, wrong fields
//! are named, unknown ones are left over.

use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value::Error as Plain};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Value as Json};

use crate::app::App;
use crate::config::Limits;
use crate::error::{ApiError, Kind};
use crate::keys::Client;
use crate::models::{Encoder, Lease, Served};

/// Fields that mean something to other servers, and change nothing here.
pub(crate) const HARMLESS: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "cache_prompt",
    "cache_control",
    "slot_id",
    "id_slot",
];

/// Bytes of a body that is read at once; a larger one takes a while.
const SMALL: usize = 64 << 10;

/// JSON values in a body, at most: each takes as long as hundreds of bytes of text, and much more memory.
pub(crate) const MAX_VALUES: usize = 1 << 18;

/// Fields of a body that an endpoint reads together.
pub(crate) trait Group: DeserializeOwned + JsonSchema + Send + 'static {
    /// Fields that this server does not support: a value that asks for something is an error.
    const REFUSED: &'static [&'static str] = &[];
    /// Fields that change nothing here, besides [`HARMLESS`].
    const IGNORED: &'static [&'static str] = &[];
}

/// The body of an endpoint: a group, or several.
pub(crate) trait Body: Sized + Send + 'static {
    fn take(fields: &mut Fields) -> Result<Self, ApiError>;

    fn describe(properties: &mut Properties);
}

impl<T: Group> Body for T {
    fn take(fields: &mut Fields) -> Result<T, ApiError> {
        fields.refused.extend(T::REFUSED);
        fields.ignored.extend(T::IGNORED);
        fields.take()
    }

    fn describe(properties: &mut Properties) {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        let required = schema["required"].as_array().into_iter().flatten();
        properties.required.extend(required.filter_map(Json::as_str).map(str::to_owned));
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            properties.add(name, schema.clone());
        }
        properties.refused.extend(T::REFUSED);
        properties.ignored.extend(T::IGNORED);
    }
}

macro_rules! bodies {
    ($(($($group:ident),+))+) => { $(
        impl<$($group: Body),+> Body for ($($group,)+) {
            fn take(fields: &mut Fields) -> Result<Self, ApiError> {
                Ok(($($group::take(fields)?,)+))
            }

            fn describe(properties: &mut Properties) {
                $($group::describe(properties);)+
            }
        }
    )+ };
}

bodies! { (A, B) (A, B, C) (A, B, C, D) }

/// The fields of a body in the document; of a name, the first one counts.
#[derive(Default)]
pub(crate) struct Properties {
    pub(crate) all: Map<String, Json>,
    pub(crate) required: Vec<String>,
    pub(crate) refused: Vec<&'static str>,
    pub(crate) ignored: Vec<&'static str>,
}

impl Properties {
    pub(crate) fn add(&mut self, name: &str, schema: Json) {
        self.all.entry(name).or_insert(schema);
    }
}

/// A call: its body, and who makes it.
pub(crate) struct Read<B> {
    pub(crate) app: Arc<App>,
    pub(crate) client: Client,
    pub(crate) body: B,
    pub(crate) model: Option<String>,
    /// Names of the fields that are ignored.
    pub(crate) ignored: Vec<String>,
}

impl<B: Body> FromRequest<Arc<App>> for Read<B> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Read<B>, ApiError> {
        let client = request.extensions().get::<Client>().cloned().unwrap_or_default();
        let is_ollama = request.uri().path().starts_with("/api/");
        let bytes = bytes(request, &app.config.limits).await?;
        let mut fields = if bytes.len() <= SMALL {
            Fields::read(&bytes)?
        } else {
            app.blocking(move || Fields::read(&bytes)).await??
        };
        let Model { mut model } = fields.take()?;
        if is_ollama {
            // The older name.
            let old = fields.map.get("name").and_then(Json::as_str);
            model = model.or_else(|| old.map(str::to_owned));
        }
        model = model.filter(|name| !name.trim().is_empty());
        let body = B::take(&mut fields)?;
        Ok(Read { app: app.clone(), client, body, model, ignored: fields.finish()? })
    }
}

impl<B> Read<B> {
    /// The model of the call, which writes text.
    pub(crate) async fn served(&self) -> Result<Arc<Served>, ApiError> {
        self.app.models.get(self.model.as_deref()).await?.generator()
    }

    /// The model of the call, which computes embeddings or scores.
    pub(crate) async fn encoder(&self) -> Result<Arc<Lease<Arc<Encoder>>>, ApiError> {
        self.app.models.get(self.model.as_deref()).await?.encoder()
    }
}

/// Types of bodies besides JSON's own: clients that set none send JSON as the type of a text, or of a form. A page needs no leave of
/// its browser for these, so that only its origin tells that it is a foreign one.
const TYPES: [&str; 5] = [
    "application/json",
    "text/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/octet-stream",
];

/// The body of a request: of bounded size, within a bounded time, a text by its type, and not compressed.
async fn bytes(request: Request, limits: &Limits) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("application/json");
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !essence.is_empty() && !TYPES.contains(&&*essence) && !essence.ends_with("+json") {
        let message = format!("the body is {essence:?}, expected application/json");
        return Err(ApiError::new(Kind::MediaType, message));
    }
    // A small compressed body may be huge.
    if parts.headers.get_all(header::CONTENT_ENCODING).iter().any(|coding| coding != "identity") {
        let message = "the body is compressed; send it without Content-Encoding";
        return Err(ApiError::new(Kind::MediaType, message));
    }
    let too_large = || {
        let most = limits.body;
        let message = format!("request body too large: more than {most} bytes; send less");
        ApiError::new(Kind::BodyTooLarge, message)
    };
    // A client need not send a body that is refused by its length.
    if body.size_hint().lower() > limits.body as u64 {
        return Err(too_large());
    }
    let bytes = tokio::time::timeout(limits.body_time, Limited::new(body, limits.body).collect());
    let bytes = bytes.await.map_err(|_| {
        let seconds = limits.body_time.as_secs();
        ApiError::new(Kind::BodyTimeout, format!("the body did not arrive within {seconds} s"))
    })?;
    let bytes = bytes.map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large()
        } else {
            ApiError::new(Kind::Invalid, format!("request body cannot be read: {error}"))
        }
    })?;
    Ok(bytes.to_bytes())
}

/// The field that all bodies have.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Model {
    /// The name of a model; without it the first one.
    model: Option<String>,
}

impl Group for Model {}

#[derive(Clone, Copy)]
pub(crate) struct Within<const MIN: usize, const MAX: usize>(pub(crate) usize);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Within<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        match number.as_u64().and_then(|number| usize::try_from(number).ok()) {
            Some(found) if (MIN..=MAX).contains(&found) => Ok(Within(found)),
            _ if MAX == usize::MAX => {
                Err(D::Error::custom(format!("found {number}, expected {MIN} or more")))
            }
            _ => Err(D::Error::custom(format!("found {number}, expected {MIN} to {MAX}"))),
        }
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Within<MIN, MAX> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Within".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        if MAX == usize::MAX {
            json_schema!({ "type": "integer", "minimum": MIN })
        } else {
            json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
        }
    }
}

/// Values in a JSON text, roughly: what stands before commas and after brackets, outside of strings.
fn values(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b',' | b'[' | b'{') => values += 1,
            _ => {}
        }
    }
    values
}

/// The bytes of a body after a byte order mark. Fails if it is not UTF-8.
fn text(body: &[u8]) -> Result<&[u8], ApiError> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let found = match (body, std::str::from_utf8(body)) {
        ([0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, ..] | [_, 0, ..], _) => "UTF-16 or UTF-32".to_owned(),
        (_, Err(error)) => {
            let at = error.valid_up_to();
            format!("not UTF-8: its byte {at} is 0x{:02x}", body[at])
        }
        (_, Ok(_)) => return Ok(body),
    };
    Err(ApiError::new(Kind::Invalid, format!("request body is {found}; send it in UTF-8")))
}

/// Groups of fields that clients merge into the body, and that some send as they are.
const EXTRA: [&str; 2] = ["extra_body", "nvext"];

/// Makes whole numbers integers: clients whose language has one type of numbers write 4 as 4.0. Objects are the client's own data.
fn make_whole(value: &mut Json) {
    const MAX_EXACT: f64 = (1_u64 << 53) as f64;
    match value {
        Json::Array(items) => items.iter_mut().for_each(make_whole),
        Json::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= MAX_EXACT);
            if let Some(whole) = whole {
                *value = (whole as i64).into();
            }
        }
        _ => {}
    }
}

/// The fields that have not been read yet.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) map: Map<String, Json>,
    refused: Vec<&'static str>,
    ignored: Vec<&'static str>,
}

impl Fields {
    /// The fields of a body. Fails if it is not a JSON object, nests too deep, or has too many values.
    pub(crate) fn read(body: &[u8]) -> Result<Fields, ApiError> {
        let body = text(body)?;
        if values(body) > MAX_VALUES {
            let why = format!("the body has more than {MAX_VALUES} JSON values; send several requests");
            return Err(ApiError::new(Kind::BodyTooLarge, why));
        }
        let json: Json = serde_json::from_slice(body).map_err(|error| {
            let why = format!(
                "request body is not valid JSON: {error}; expected a JSON object, nested at most 127 levels"
            );
            ApiError::new(Kind::Invalid, why)
        })?;
        match json {
            Json::Object(mut map) => {
                for name in EXTRA {
                    if let Some(Json::Object(more)) = map.remove(name) {
                        for (name, value) in more {
                            map.entry(name).or_insert(value);
                        }
                    }
                }
                Ok(Fields::new(map))
            }
            other => Err(ApiError::new(
                Kind::Invalid,
                format!("request body is {}, expected a JSON object", type_name(&other)),
            )),
        }
    }

    pub(crate) fn new(mut map: Map<String, Json>) -> Fields {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(make_whole);
        Fields { map, refused: Vec::new(), ignored: Vec::new() }
    }

    pub(crate) fn take<T: DeserializeOwned>(&mut self) -> Result<T, ApiError> {
        let map = names::<T>().iter().filter_map(|&name| self.map.remove_entry(name)).collect::<Map<_, _>>();
        let kinds: Vec<(String, &str)> =
            map.iter().map(|(name, value)| (name.clone(), type_name(value))).collect();
        serde_path_to_error::deserialize(Json::Object(map)).map_err(|error| {
            let (path, why) = (error.path().to_string(), error.into_inner().to_string());
            if let Some(name) = why.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'))
                && path == "."
            {
                return ApiError::invalid(name, "is missing");
            }
            let name = path.split(['.', '[']).next().unwrap_or_default();
            let found = kinds.iter().find(|(known, _)| known == name).map_or("wrong", |(_, kind)| kind);
            let message = match why.strip_prefix("found ") {
                Some(why) => format!("`{path}` is {why}"),
                None if path == name => format!("`{name}` is {found}: {why}"),
                None => format!("`{name}` is {found}: {why} at `{path}`"),
            };
            ApiError::new(Kind::Invalid, message).at(name)
        })
    }

    /// Names of the fields that have not been read. Fails if one of them is not supported and asks for something.
    pub(crate) fn finish(mut self) -> Result<Vec<String>, ApiError> {
        for name in self.refused {
            if self.map.remove(name).is_some_and(|value| asks(&value)) {
                return Err(ApiError::unsupported(name, "is not supported by this server; leave it out"));
            }
        }
        let is_ignored = |name: &str| self.ignored.contains(&name) || HARMLESS.contains(&name);
        Ok(self.map.into_iter().map(|(name, _)| name).filter(|name| !is_ignored(name)).collect())
    }
}

/// Fails if a list has more than `most` items.
pub(crate) fn at_most<T>(name: &str, list: &[T], most: usize) -> Result<(), ApiError> {
    if list.len() > most {
        return Err(ApiError::invalid(name, format!("has {} items, expected at most {most}", list.len())));
    }
    Ok(())
}

/// Names of a struct's fields, with their aliases, as its `Deserialize` gives them.
fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Names<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = Plain;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Plain> {
            Err(Plain::custom("it is no struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Plain> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
            seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut names: &[&str] = &[];
    let _ = T::deserialize(Names(&mut names));
    names
}

/// Whether a value asks for something: it is neither false, nothing, zero nor less, nor an empty text or array.
pub(crate) fn asks(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64().is_some_and(|number| number > 0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(_) => true,
    }
}

/// The type of a value, for people.
fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}
