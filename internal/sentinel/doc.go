// Package sentinel is the fold of one sentinel group: it judges every ledger
// entry by the rules that are in force for its group, publishes what it finds
// as alerts, and answers each proposal exactly once, in order.
//
// That order is the barrier: an answer to a proposal proves that the group has
// judged every observation before it. A group that has no rules in force
// answers all the same, without a rule set's digest, and the arbiter counts
// that as silence.
//
// It may import internal/activation, internal/stage and pkg/rules, and no other fold. Begin reading
// with fold.go.
package sentinel
