package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"lazaret/pkg/policy"
	"lazaret/pkg/rules"

	shipped "lazaret/rules"
)

// basePatch changes the shipped policy for probes, so that a slow machine causes no failures.
var basePatch = map[string]any{
	"deadline":       map[string]any{"default": "60s", "L4": "60s"},
	"max_open_holds": 1000,
}

// Patch changes a document like a JSON merge patch (RFC 7386): null removes, mappings are merged, other
// values are replaced. A list of named mappings is patched by a mapping from names.
func Patch(doc, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	if list, ok := doc.([]any); ok && named(list) {
		out := slices.Clone(list)
		for _, name := range slices.Sorted(maps.Keys(p)) {
			i := slices.IndexFunc(out, func(x any) bool { return x.(map[string]any)["name"] == name })
			switch {
			case i < 0 && p[name] != nil:
				out = append(out, Patch(map[string]any{"name": name}, p[name]))
			case i < 0:
			case p[name] == nil:
				out = slices.Delete(out, i, i+1)
			default:
				out[i] = Patch(out[i], p[name])
			}
		}
		return out
	}
	d, _ := doc.(map[string]any)
	out := maps.Clone(d)
	if out == nil {
		out = make(map[string]any)
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = Patch(out[k], v)
	}
	return out
}

func named(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(x any) bool {
		m, ok := x.(map[string]any)
		return !ok || m["name"] == nil
	})
}

// policyWith returns the policy of probes with patches applied.
func policyWith(patches ...map[string]any) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(policy.Default, &doc); err != nil {
		return nil, err
	}
	var out any = doc
	for _, p := range append([]map[string]any{basePatch}, patches...) {
		if p != nil {
			out = Patch(out, p)
		}
	}
	b, err := yaml.Marshal(out)
	if err != nil {
		return nil, err
	}
	if _, err := policy.Compile(policy.DefaultName, b); err != nil {
		return nil, fmt.Errorf("the patched policy: %w", err)
	}
	return b, nil
}

// rulesWithout returns the shipped rule set with an exception for each scenario whose contrast names
// rules. In the scenario's project these rules have no effect, so that all scenarios can share one
// pipeline.
func rulesWithout(scenarios []*Scenario) ([]byte, error) {
	src, err := rules.Pack(shipped.FS())
	if err != nil {
		return nil, err
	}
	set, err := rules.CompileBundle(src)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, r := range set.Rules() {
		known[r.ID] = true
	}
	var b strings.Builder
	b.WriteString("exceptions:\n")
	for _, s := range scenarios {
		for _, id := range s.Contrast.Rules {
			if !known[id] {
				return nil, fmt.Errorf("%s: contrast: no shipped rule has the id %q", s.Name, id)
			}
		}
		fmt.Fprintf(&b, "  - id: %s\n    rules: [%s]\n    when: event.project == '%s'\n    owner: probe\n    reason: "+
			"contrast\n    expires: 2099-01-01\n",
			s.Name, strings.Join(s.Contrast.Rules, ", "), projectName(s.Name))
	}
	out, err := rules.PackWith(shipped.FS(), map[string]string{"exceptions.yaml": b.String()})
	if err == nil {
		_, err = rules.CompileBundle(out)
	}
	return out, err
}
