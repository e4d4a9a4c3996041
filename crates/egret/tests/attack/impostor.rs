//! One who has the secret of the pool and not the key of any of its nodes, or of no other than its own.

use std::time::Duration;

use egret::am::{EndpointName, Message};
use egret::fabric::Fabrics;
use egret::link::{Links, LinksOptions};
use egret::node::registry::{Registry, RegistryOptions};
use egret::vi::{Identity, Nic, NicOptions};

use crate::actor::{obey, outcome};
use crate::scene::POOL;

struct Impostor {
    /// Of all its nics.
    identity: Identity,
    registry: Option<Registry>,
    /// It uses the last.
    links: Vec<Links>,
}

/// Carries out the orders of a test.
pub(crate) fn run() {
    let identity = Identity::random();
    let mut impostor = Impostor { identity, registry: None, links: Vec::new() };
    obey(|order| impostor.carry_out(order));
}

impl Impostor {
    fn carry_out(&mut self, order: &[&str]) -> String {
        let soon = Duration::from_secs(3);
        match *order {
            // Is a registry of the pool, at this address.
            ["registry", place, secret] => {
                let options = RegistryOptions::new(POOL, 2).secret(secret.into()).listen(place);
                outcome(Registry::open(options).map(|registry| self.registry = Some(registry)))
            }
            // How much has happened there.
            ["events"] => {
                let mut events = self.registry.as_ref().unwrap().events();
                std::iter::from_fn(|| events.try_next()).count().to_string()
            }
            // Has links at this address, and keeps those that it has.
            ["links", place, secret, fabric] => {
                let links = Links::open(self.nic(place, secret, fabric), LinksOptions::default());
                outcome(links.map(|links| self.links.push(links)))
            }
            ["connect", host] => outcome(self.links().wait_connect(host, soon)),
            // Would ask the registry.
            ["ask", host] => {
                let to = EndpointName::new(host, "egret.registry", 0);
                let endpoint = self.links().bundle().endpoint(0);
                outcome(endpoint.wait_map(&to, soon))
            }
            // Would be a member, and be found at this host.
            ["join", registry, host] => self.join(registry, host),
            // How many links others have made with it, or it with others, and still has.
            ["linked"] => self.links().account().links.to_string(),
            ["made"] => self.links().counters().made.to_string(),
            _ => panic!("{order:?}"),
        }
    }

    /// Asks to be a member that has `tcp` at a host, which need not be its own.
    fn join(&self, registry: &str, host: &str) -> String {
        let text = |text: &str| {
            let length = u32::try_from(text.len()).unwrap().to_le_bytes();
            [&length[..], text.as_bytes()].concat()
        };
        // No size that it would have, any pool, no rank; nowhere; one fabric, which has these properties.
        let (none, one, properties) =
            ([0, 0, 0], 1_u32.to_le_bytes(), [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
        let ask = [&[0][..], &text(POOL), &none, &text("machine"), &[0; 16], &one];
        let ask = [&ask.concat()[..], &text("tcp"), &text(host), &properties].concat();
        let to = EndpointName::new(registry, "egret.registry", 0);
        let soon = Duration::from_secs(3);
        let remote = self.links().bundle().endpoint(0).wait_map(&to, soon).unwrap();
        let answer = remote.wait_call(Message::to(0).words(&[5]).bytes(&ask), soon).unwrap();
        // A welcome is the first of the answers, a refusal the sixth.
        match answer.bytes().first() {
            Some(0) => "done".to_owned(),
            Some(5) => "refused".to_owned(),
            _ => format!("{:?}", answer.bytes()),
        }
    }

    fn nic(&self, place: &str, secret: &str, fabric: &str) -> Nic {
        let options = NicOptions::new(place).secret(secret.into());
        Fabrics::default().open(fabric, options.identity(self.identity.clone())).unwrap()
    }

    fn links(&self) -> &Links {
        self.links.last().expect("it has links")
    }
}
