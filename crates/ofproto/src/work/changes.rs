//! The changes since the last publication.

use super::SEARCHED_AT_ONCE;
use crate::dependency::Dependency;
use crate::lookup::Added;
use crate::rule::Rule;
use flow::Field;
use hashbrown::HashSet;
use openflow::Action;

/// The changes since the last publication.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Something changed that all megaflows may depend on.
    pub(super) configuration: bool,
    /// Matched against megaflows at publication, so that megaflows are included that a handler installs
    /// before.
    pub(super) dependencies: HashSet<Dependency>,
    pub(super) added: Vec<Added>,
}

impl Changes {
    /// A change that may affect all: of tunnels or their options.
    pub fn configuration(&mut self) {
        self.configuration = true;
    }

    /// A change of one dependency.
    pub fn one(&mut self, what: Dependency) {
        self.dependencies.insert(what);
    }

    /// A flow was added, changed or removed.
    pub fn flow(&mut self, rule: &Rule, is_new: bool) {
        let (bridge, table) = (rule.bridge, rule.table);
        if is_new {
            self.one(Dependency::FlowCount { bridge, table });
        }
        self.one(Dependency::Rule(rule.id));
        // A flow that is part of a conjunctive match is never hit itself.
        let is_clause = rule.actions.iter().any(|it| matches!(it, Action::Conjunction(_)));
        if is_new || is_clause {
            self.added(rule, is_clause);
        }
    }

    fn added(&mut self, rule: &Rule, is_clause: bool) {
        let (bridge, table) = (rule.bridge, rule.table);
        let on = Dependency::Table { bridge, table };
        if self.dependencies.contains(&on) {
            return;
        }
        if self.added.len() < SEARCHED_AT_ONCE {
            let matching = rule.matching.unpack();
            // Lookups find conjunctive matches by the priority of their clauses.
            let is_conjunctive = is_clause || matching.mask().has(Field::ConjId);
            let priority = if is_conjunctive { u16::MAX } else { rule.priority };
            self.added.push(Added { bridge, table, priority, matching });
        } else {
            self.dependencies.insert(on);
            self.added.retain(|added| (added.bridge, added.table) != (bridge, table));
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.configuration && self.dependencies.is_empty() && self.added.is_empty()
    }
}
