// Package sentinel is the stage of one sentinel group. Its fold judges every ledger entry by the rules
// that are in force for the group, publishes findings as alerts, and answers each proposal exactly
// once, in ledger order.
//
// Because of this order, an answer to a proposal proves that the group has judged every observation
// before it. A group without rules in force answers too. Its answer names no rule set, and the
// arbiter treats such an answer as silence.
//
// It may import internal/activation, internal/stage and pkg/rules. It must not import the package of another
// stage. Begin reading with fold.go.
package sentinel
