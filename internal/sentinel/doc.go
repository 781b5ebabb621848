// Package sentinel is the fold of one sentinel group. It judges every ledger entry by the rules
// that are in force for the group, publishes findings as alerts, and answers each proposal exactly
// once, in ledger order.
//
// Because of this order, an answer to a proposal proves that the group has judged every observation
// before it. A group without rules in force also answers, without a rule set's digest, and the
// arbiter treats that as silence.
//
// It may import internal/activation, internal/stage and pkg/rules, and no other fold. Begin reading
// with fold.go.
package sentinel
