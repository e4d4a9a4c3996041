//! Compiles the schema of capnp-rpc's calls, if that is asked for.

fn main() {
    #[cfg(feature = "capnp")]
    capnpc::CompilerCommand::new()
        .src_prefix("src/calls")
        .default_parent_module(vec!["by_capnp".to_owned()])
        .file("src/calls/calls.capnp")
        .run()
        .expect("`capnp` compiles the schema; Debian has it in the package capnproto");
}
