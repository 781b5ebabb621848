package console

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"lazaret/internal/backtest"
	"lazaret/pkg/rules"
	shipped "lazaret/rules"
	"lazaret/streams"
)

// rulesNow caches the active rule set for a few seconds.
type rulesNow struct {
	asking sync.Mutex // held while the stages are queried

	mu     sync.Mutex // guards all fields below
	set    *rules.Set
	bundle []byte
	at     time.Time
	costs  map[string]ruleCost // by rule: its cost in the last comparison of the current rule set; nil: none was made
	events int                 // number of events in that comparison
}

// ruleCost is the cost of one rule, as measured in a comparison of rule sets.
type ruleCost struct {
	Evaluated uint64
	NS        int64 // nanoseconds per evaluation
}

// rules returns the rule set that is active, and its bundle.
func (c *Console) rules(ctx context.Context) (*rules.Set, []byte, error) {
	n := &c.set
	n.asking.Lock()
	defer n.asking.Unlock()
	n.mu.Lock()
	set, bundle, at := n.set, n.bundle, n.at
	n.mu.Unlock()
	if set != nil && time.Since(at) < policyFresh {
		return set, bundle, nil
	}
	b, err := backtest.InForce(ctx, c.cfg.Conn, streams.DoActivateRules)
	if err != nil {
		return nil, nil, err
	}
	if b == nil {
		return nil, nil, errors.New("no rule set is in force")
	}
	costs := n.costs
	if set == nil || set.Digest() != streams.Digest(b) {
		if set, err = rules.CompileBundle(b); err != nil {
			return nil, nil, err
		}
		costs = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set, n.bundle, n.at, n.costs = set, b, time.Now(), costs
	return set, b, nil
}

// measured stores the costs of rules from a comparison. It does nothing if the comparison was not one of the current
// rule set.
func (n *rulesNow) measured(r *backtest.Report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil || n.set.Digest() != r.Before {
		return
	}
	n.costs, n.events = make(map[string]ruleCost), r.Events
	for _, x := range r.Rules {
		n.costs[x.Rule] = ruleCost{x.Evaluated, x.NS}
	}
}

// The rule sets with which a user can compare the current rule set.
const (
	withSame    = "same"    // the current rule set again, to measure the costs of its rules
	withShipped = "shipped" // the set built into the program
	withShadow  = "shadow"  // the current set with shadow rules enforced
	withoutRule = "without" // the current rule set with one rule in shadow mode
	withDraft   = "draft"   // the current set with drafted exceptions
)

// other returns the rule set with which the current one is to be compared. with is the user's choice.
func (c *Console) other(set *rules.Set, bundle []byte, with, rule, draft string) (*rules.Set, error) {
	switch with {
	case withSame:
		return set, nil
	case withShipped:
		b, err := rules.Pack(shipped.FS())
		if err != nil {
			return nil, err
		}
		return rules.CompileBundle(b)
	case withShadow:
		s, err := rules.CompileBundle(bundle)
		if err != nil {
			return nil, err
		}
		for _, r := range s.Rules() {
			if r.Mode == "shadow" {
				r.Mode = "enforce" // the set is a private copy
			}
		}
		return s, nil
	case withoutRule:
		if set.Rule(rule) == nil {
			return nil, badRequest("The rule set in force has no rule %q.", streams.Clip(rule, 80))
		}
		s, err := rules.CompileBundle(bundle)
		if err != nil {
			return nil, err
		}
		s.Rule(rule).Mode = "shadow"
		return s, nil
	case withDraft:
		return withExceptions(bundle, draft)
	}
	return nil, badRequest("%q is not a rule set to compare with.", streams.Clip(with, 40))
}

// withExceptions compiles a bundle with additional exceptions.
func withExceptions(bundle []byte, draft string) (*rules.Set, error) {
	src, err := rules.Open(bundle)
	if err != nil {
		return nil, err
	}
	files, err := addExceptions(src, draft)
	if err != nil {
		return nil, err
	}
	b, err := rules.PackFiles(files)
	if err != nil {
		return nil, err
	}
	s, err := rules.CompileBundle(b)
	if err != nil {
		return nil, badRequest("The exceptions cannot be read: %v", err)
	}
	return s, nil
}

// addExceptions returns the files of a rule set, with the exceptions in draft added to them.
func addExceptions(src *rules.Source, draft string) (map[string]string, error) {
	var has, more rules.ExceptionsDoc
	if err := yaml.Unmarshal([]byte(src.Files[rules.ExceptionsFile]), &has); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions([]byte(draft), &more, yaml.Strict()); err != nil {
		return nil, badRequest("The exceptions cannot be read: %v", err)
	}
	has.Exceptions = append(has.Exceptions, more.Exceptions...)
	text, err := yaml.Marshal(&has)
	if err != nil {
		return nil, err
	}
	files := maps.Clone(src.Files)
	files[rules.ExceptionsFile] = string(text)
	return files, nil
}
