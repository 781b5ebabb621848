package policy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
)

// Limits of context policies.
const (
	maxMaxAge      = 100 * 365 * 24 * time.Hour
	maxMaxExternal = 1000
)

// defaultPurpose is the key of the section for all purposes without their own.
const defaultPurpose = "default"

// contextText is a policy's section on recalls for one purpose. A field that is missing has the
// value of the section `default`, and if that lacks it too, of beliefs.DefaultContext. Context
// policies do not apply to privileged recalls.
type contextText struct {
	MaxAge      string `yaml:"max_age"`
	Ceiling     string `yaml:"ceiling"`
	MaxExternal *int   `yaml:"max_external"`
	ContextOnly *bool  `yaml:"context_only"`
	// Conditions are CEL expressions. Those of the section `default` apply to every purpose.
	Conditions []contextConditionText `yaml:"conditions"`
}

// Context returns the context policy for recalls with the given purpose. For a purpose that is not in
// beliefs.Purposes, the section `default` applies. Old ledgers have recalls with such purposes.
func (p *Policy) Context(purpose string) beliefs.ContextPolicy {
	c, ok := p.contexts[purpose]
	if !ok {
		c = p.contexts[defaultPurpose]
	}
	c.Purpose = purpose
	return c
}

func (p *Policy) compileContexts(y *strictyaml.Document, texts map[string]contextText) error {
	base := beliefs.DefaultContext("")
	if t, ok := texts[defaultPurpose]; ok {
		if err := t.apply(y, defaultPurpose, &base); err != nil {
			return err
		}
	}
	p.contexts = map[string]beliefs.ContextPolicy{defaultPurpose: base}
	for _, purpose := range slices.Sorted(maps.Keys(texts)) {
		if purpose == defaultPurpose {
			continue
		}
		if !slices.Contains(beliefs.Purposes, purpose) {
			return y.Errorf([]any{"context", purpose}, "context for %q: use default or one of %v", purpose, beliefs.Purposes)
		}
		c, t := base, texts[purpose]
		if err := t.apply(y, purpose, &c); err != nil {
			return err
		}
		p.contexts[purpose] = c
	}
	return nil
}

// apply checks the settings of t, which are those of the context purpose, and writes them to c. A setting that t leaves
// out keeps its value in c. The conditions of t are added to those of c.
func (t *contextText) apply(y *strictyaml.Document, purpose string, c *beliefs.ContextPolicy) error {
	at := func(key string, err error) error {
		return y.Errorf([]any{"context", purpose, key}, "%s of context %s: %w", key, purpose, err)
	}
	if t.MaxAge != "" {
		d, err := duration(t.MaxAge, time.Second, maxMaxAge)
		if err != nil {
			return at("max_age", err)
		}
		c.MaxAge = d
	}
	if t.Ceiling != "" {
		if err := c.Ceiling.UnmarshalText([]byte(t.Ceiling)); err != nil {
			return at("ceiling", err)
		}
	}
	if n := t.MaxExternal; n != nil {
		if *n < 0 || *n > maxMaxExternal {
			return at("max_external", fmt.Errorf("%d is out of range, want 0 to %d", *n, maxMaxExternal))
		}
		c.MaxExternal = *n
	}
	if t.ContextOnly != nil {
		c.ContextOnly = *t.ContextOnly
	}
	own, err := compileContextConditions(y, []any{"context", purpose, "conditions"}, t.Conditions)
	if err != nil {
		return err
	}
	c.Conditions = append(slices.Clip(c.Conditions), own...)
	return nil
}
