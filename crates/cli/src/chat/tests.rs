//! A chat whose device is lost.

use std::sync::Arc;

use backend::{
    Backend, Bucket, Description, Error, KvLayout, LoadedModel, Memory, Outputs, Program, Step, Taps, Ticket,
    Weights,
};
use backend_cpu::Cpu;
use clap::Parser;
use engine::{Engine, Model, Options};
use graph::Graph;

use super::{Args, Command, Session};
use crate::advice::advice;
use crate::args::ModelArgs;
use crate::{load, output};

/// A device that can be put to use, and is lost with the first step.
struct Lost(Cpu);

struct LostModel(Box<dyn LoadedModel>);

struct LostProgram(Box<dyn Program>);

impl Backend for Lost {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        self.0.requirements(graph, weights, kv_layout, buckets, taps)
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        Ok(Box::new(LostModel(Box::new(self.0).load(graph, weights, kv_layout)?)))
    }
}

impl LoadedModel for LostModel {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        Ok(Box::new(LostProgram(self.0.compile(bucket, taps)?)))
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

impl Program for LostProgram {
    fn submit(&mut self, _: &Step) -> Result<Ticket, Error> {
        Err(Error::Device { device: "a card".into(), why: "it was lost".into() })
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.0.wait(ticket)
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        self.0.read(name)
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[test]
fn a_conversation_goes_on_without_a_device_that_was_lost() {
    let args = ["chat", "--backend", "cpu", "--temp", "0", "-n", "2"];
    let mut session = Session::new(Line::parse_from(args).args, false, false).expect("the embedded model");
    session.answer("Hi").expect("the CPU answers");
    let model = Arc::new(Model::new(load::file(&ModelArgs::default()).expect("a file")).expect("a model"));
    let lost = Engine::new(model, Box::new(Lost(Cpu::new(None))), Options::default()).expect("room");
    session.go_on(lost).expect("it takes the conversation");
    for _ in 0..2 {
        let error = session.answer("Ho").expect_err("a step fails");
        assert!(output::message(&error).contains("a card: it was lost"), "{error:#}");
        assert!(advice(&error).is_some_and(|advice| advice.contains("/backend cpu")));
    }
    session.obey(Command::Backend, "cpu").expect("the CPU is there");
    session.answer("Hey").expect("the CPU answers");
    let said = session.chat.messages().iter().filter(|message| message.role == "user");
    let said: Vec<_> = said.map(|message| message.text()).collect();
    assert_eq!(said, ["Hi", "Hey"]);
}
