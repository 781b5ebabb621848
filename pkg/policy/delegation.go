package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// MaxDelegation is the maximum number of delegation grounds in a policy.
const MaxDelegation = 64

// delegationText is a delegation ground in the policy file. If its condition is met, an action for
// which the level is the only reason to hold is allowed without a person. The policy's signature
// covers it.
type delegationText struct {
	Name string `yaml:"name"`
	When string `yaml:"when"`
}

type delegation struct {
	name string
	when cel.Program
}

// Evidence describes the session of an action, as recorded in the ledger.
type Evidence struct {
	User    bool // the user spoke in the session
	Asked   bool // the user's words ask for the act
	Named   bool // the user named every address and account in the arguments
	Values  int  // number of arguments, addresses and accounts that the user named
	Foreign int  // number of texts that came from neither the user nor the operator
	Order   int  // points (0 to 100) of the text that reads most like an order
	Unread  bool // one of the texts could not be read completely
	Leans   bool // an address or account in the arguments comes from external content only
}

// delegationEnv is the typed CEL environment of delegation grounds.
var delegationEnv = sync.OnceValues(func() (*cel.Env, error) {
	env, err := conditionEnv()
	if err != nil {
		return nil, err
	}
	opts := []cel.EnvOption{cel.Variable("effects", cel.ListType(cel.StringType))}
	for _, name := range []string{"user", "asked", "named", "unread", "leans"} {
		opts = append(opts, cel.Variable(name, cel.BoolType))
	}
	for _, name := range []string{"values", "foreign", "order"} {
		opts = append(opts, cel.Variable(name, cel.IntType))
	}
	return env.Extend(opts...)
})

func compileDelegation(y *strictyaml.Document, texts []delegationText) ([]delegation, error) {
	if len(texts) > MaxDelegation {
		return nil, y.Errorf([]any{"delegation"}, "%d grounds are too many, at most %d are possible", len(texts),
			MaxDelegation)
	}
	var out []delegation
	for i, t := range texts {
		at := func(key, format string, args ...any) error {
			return y.Errorf([]any{"delegation", i, key}, format, args...)
		}
		if err := streams.CheckID("name of a ground of delegation", t.Name); err != nil {
			return nil, at("name", "%w", err)
		}
		if slices.ContainsFunc(out, func(d delegation) bool { return d.name == t.Name }) {
			return nil, at("name", "ground %q is listed twice", t.Name)
		}
		if t.When == "" {
			return nil, at("name", "ground %q has no condition: add `when`", t.Name)
		}
		env, err := delegationEnv()
		if err != nil {
			return nil, err
		}
		ast, issues := env.Compile(t.When)
		if err := issues.Err(); err != nil {
			return nil, at("when", "condition of %s: %w", t.Name,
				errors.New(strings.TrimSpace(strings.ReplaceAll(err.Error(), "<input>:", ""))))
		}
		if !ast.OutputType().IsExactType(cel.BoolType) {
			return nil, at("when", "condition of %s is of type %s, want bool", t.Name, ast.OutputType())
		}
		p, err := env.Program(ast, cel.CostLimit(conditionCost))
		if err != nil {
			return nil, at("when", "condition of %s: %w", t.Name, err)
		}
		out = append(out, delegation{t.Name, p})
	}
	return out, nil
}

// Delegated returns the first delegation ground whose condition is met. Such a ground allows an
// action without a person. Delegated returns ok only for an action whose level is L4, and only if
// this level is the one reason for the policy to hold it. So a hold remains if an entry has
// `require`, if an entry's condition could not be evaluated, or if the egress section holds a
// destination. A ground whose condition cannot be evaluated does not count as met. No ground
// allows the acceptance of a tool catalogue or of a prompt.
func (p *Policy) Delegated(k Call, c Class, ev Evidence) (ground string, ok bool) {
	if len(p.delegated) == 0 || c.Level != beliefs.L4 || c.insists || k.Tool == streams.ApproveTools ||
		k.Tool == streams.RegisterPrompt || len(k.Tool) > MaxTool {
		return "", false
	}
	for _, r := range c.Reasons {
		if r.Verdict > streams.Hold || r.Verdict == streams.Hold && r.Code != streams.CodeFloor {
			return "", false
		}
	}
	x := call{tool: k.Tool, project: k.Project, agent: k.Agent, raw: k.Args}
	vars, err := x.variables()
	if err != nil {
		return "", false
	}
	vars["effects"] = c.Effects
	vars["user"], vars["asked"], vars["named"] = ev.User, ev.Asked, ev.Named
	vars["unread"], vars["leans"] = ev.Unread, ev.Leans
	vars["values"], vars["foreign"], vars["order"] = ev.Values, ev.Foreign, ev.Order
	for _, d := range p.delegated {
		if met, err := x.holds(d.when); err == nil && met {
			return d.name, true
		}
	}
	return "", false
}

// String describes the evidence for the text of a verdict.
func (ev Evidence) String() string {
	var parts []string
	if ev.Asked {
		parts = append(parts, "the user asked for it")
	}
	if ev.Foreign == 0 {
		parts = append(parts, "the session has only texts of the user and the operator")
	} else {
		parts = append(parts, fmt.Sprintf(
			"of %d foreign texts in the session the strongest reads like an order by %d of 100 points", ev.Foreign, ev.Order))
	}
	return strings.Join(parts, ", ")
}

// ShippedDelegation returns the text of the section delegation of the shipped policy.
func ShippedDelegation() string { return shippedSection("delegation") }

// shippedSection returns the text of a section of the shipped policy.
func shippedSection(name string) string {
	_, text, _ := strings.Cut(string(Default), "\n"+name+":\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return name + ":\n" + text + "\n"
}
