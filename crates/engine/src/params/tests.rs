//! Every parameter takes what clients write for it, in its range.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn read(name: &str, value: Json) -> Result<Params, ParamError> {
    let mut params = Params::default();
    params.set(name, &value).map(|()| params)
}

/// Values just within and just outside of the range.
fn edges(kind: &Kind) -> (Vec<Json>, Vec<Json>) {
    let step = if matches!(kind, Kind::Number { .. }) { 0.125 } else { 1.0 };
    let (min, max) = kind.bounds();
    let within = [min, max].into_iter().flatten().map(Json::from).collect();
    let outside = [min.map(|min| min - step), max.map(|max| max + step)];
    (within, outside.into_iter().flatten().map(Json::from).collect())
}

#[test]
fn every_parameter_takes_its_range_and_nothing_else() {
    for param in Params::TABLE {
        let (within, outside) = edges(&param.kind);
        for value in within {
            let set = read(param.name, value.clone()).expect(param.name);
            assert!(set.check().is_ok());
            // -1 is 0 where 0 is all, too.
            let found = param.get(&set).as_f64();
            assert!(
                found == value.as_f64() || value == -1.0 && found == Some(0.0),
                "{}: {found:?}",
                param.name
            );
        }
        let other_kinds = [json!({ "a": {} }), json!([[1, 2, 3]]), json!([null]), json!("\u{1}")];
        let texts = matches!(param.kind, Kind::Texts { .. } | Kind::Breakers { .. });
        for value in outside.into_iter().chain(other_kinds.into_iter().take(if texts { 3 } else { 4 })) {
            let error = read(param.name, value.clone()).expect_err(param.name);
            assert_eq!((&*error.name, error.expected), (param.name, param.kind.expected()), "{value}");
        }
        let again = read(param.name, param.get(&Params::default())).expect(param.name);
        assert_eq!(again, Params::default(), "{}", param.name);
        assert_eq!(read(param.name, Json::Null), Ok(Params::default()));
    }
}

#[test]
fn names_are_given_once() {
    let mut names = BTreeSet::new();
    let all = Params::TABLE.iter().flat_map(Param::names);
    assert_eq!(all.filter(|name| !names.insert(*name)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn numbers_are_read_as_clients_write_them() {
    assert_eq!(read("max_tokens", json!(4.0)).map(|params| params.max_tokens), Ok(Some(4)));
    assert_eq!(read("n_predict", json!(-1)).map(|params| params.max_tokens), Ok(None));
    assert_eq!(read("max_tokens", json!(u64::MAX)).map(|params| params.max_tokens.is_some()), Ok(true));
    assert!(read("max_tokens", json!(4.5)).is_err() && read("max_tokens", json!("4")).is_err());
    assert_eq!(read("top_k", json!(-1)).map(|params| params.top_k), Ok(0));
    assert_eq!(read("temperature", json!(1)).map(|params| params.temperature), Ok(1.0));
    let seed = |seed: i64| read("seed", json!(seed)).expect("any seed").seed;
    assert_eq!([seed(-1), seed(i64::MIN), seed(u32::MAX.into())], [None; 3]);
    assert_eq!((seed(7), seed(i64::from(u32::MAX) + 7)), (Some(7), Some(7)));
    assert_eq!(Param::find("temperature").map(|param| param.get(&Params::default())), Some(json!(0.8)));
}

#[test]
fn lists_are_read_as_clients_write_them() {
    let stop = |value: Json| read("stop_sequences", value).map(|params| params.stop);
    assert_eq!(stop(json!("a")), Ok(vec!["a".to_owned()]));
    assert_eq!(stop(json!(["a", "", "b"])), Ok(["a", "b"].map(str::to_owned).to_vec()));
    assert_eq!(stop(json!(vec!["x"; 17])).expect_err("many").found, "an array of 17 items");
    assert_eq!(stop(json!("x".repeat(1025))).expect_err("long").found, "a text of 1025 bytes");
    let order = |value: Json| read("samplers", value).map(|params| params.samplers);
    let expected = Ok(vec![SamplerKind::TopK, SamplerKind::Temperature]);
    for value in [json!("top_k;temperature"), json!("top-k; temp"), json!("kt"), json!(["top_k", "temp"])] {
        assert_eq!(order(value), expected);
    }
    assert_eq!(order(json!("temp")), Ok(vec![SamplerKind::Temperature]));
    assert_eq!((order(json!("")), order(json!([]))), (Ok(vec![]), Ok(vec![])));
    for wrong in [json!("top_k;infill"), json!("kq"), json!(["top_q"]), json!("s".repeat(33))] {
        let error = order(wrong).expect_err("wrong").to_string();
        assert!(error.contains("top_k (k)") && error.contains("xtc (x)"), "{error}");
    }
    let biases = |value: Json| read("logit_bias", value).map(|params| params.logit_bias);
    let expected = Ok([(5, 1.5), (6, -100.0)].map(Bias::from).to_vec());
    assert_eq!(biases(json!({ "5": 1.5, "6": -100 })), expected);
    assert_eq!(biases(json!([[5, 1.5], ["6", false]])), expected);
    assert_eq!(biases(json!([{ "token": 5, "bias": 1.5 }, { "token": 6, "bias": false }])), expected);
    let text = Bias { token: Biased::Text(" a".into()), bias: 2.0 };
    assert_eq!(biases(json!([[" a", 2]])), Ok(vec![text]));
    for wrong in [json!({ "5": 101 }), json!({ "-5": 1 }), json!([[5, true]]), json!([["x".repeat(65), 1]])] {
        assert!(biases(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_known_is_taken_and_the_rest_stays() {
    let mut fields = json!({ "seed": 3, "top_p": null, "max_tokens": 5, "n_predict": 6, "prompt": "x" });
    let fields = fields.as_object_mut().expect("an object");
    let mut params = Params::default();
    params.take(fields).expect("good fields");
    let expected = Params { seed: Some(3), max_tokens: Some(6), ..Params::default() };
    assert_eq!(params, expected);
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["prompt"]);
    let wrong = json!({ "num_predict": "many" });
    let error =
        Params::default().take(&mut wrong.as_object().cloned().expect("an object")).expect_err("a text");
    assert_eq!(error.to_string(), "`num_predict` is \"many\", expected an integer from -1");
}

#[test]
fn values_set_in_a_program_are_checked() {
    let default = Params::default;
    let wrong = [
        Params { temperature: f32::NAN, ..default() },
        Params { temperature: -1.0, ..default() },
        Params { top_p: 1.5, ..default() },
        Params { frequency_penalty: f32::INFINITY, ..default() },
        Params { logit_bias: vec![(0, f32::NAN).into()], ..default() },
        Params { logit_bias: vec![(0, f32::INFINITY).into()], ..default() },
        Params { mirostat: 3, ..default() },
        Params { dry_sequence_breakers: vec!["x".repeat(41)], ..default() },
    ];
    for params in wrong {
        assert!(params.check().is_err(), "{params:?}");
    }
    let error = Params { top_p: 1.5, ..default() }.check().expect_err("too large");
    assert_eq!(error.to_string(), "`top_p` is 1.5, expected a number from 0 to 1");
    let banned = Params { logit_bias: vec![(0, f32::NEG_INFINITY).into()], ..default() };
    assert!(banned.check().is_ok() && default().check().is_ok());
}
