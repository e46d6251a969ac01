//! The suite that every backend must pass.

fn gpu() -> Box<dyn backend::Backend> {
    let adapters = backend_wgpu::adapters();
    Box::new(backend_wgpu::Gpu::new(adapters.first().expect("an adapter")).expect("a device"))
}

testkit::conformance!(gpu(), Box::new(backend_reference::Reference::new()));
