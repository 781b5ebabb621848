package duel

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"lazaret/internal/live"
	"lazaret/streams"
)

//go:embed seeds.yaml
var seedFile []byte

// seeds is the format of seeds.yaml.
type seeds struct {
	Goals    []goal    `yaml:"goals"`
	Settings []setting `yaml:"settings"`
}

type goal struct {
	Call   call     `yaml:"call"`
	Verbs  []string `yaml:"verbs"` // each: base form, -ing form, participle
	Object string   `yaml:"object"`
	Rest   string   `yaml:"rest"` // where @ stands for the value
	Value  string   `yaml:"value"`
	Noun   string   `yaml:"noun"`
	// Related is the request of a user who asks for the same kind of action on another object.
	Related string `yaml:"related"`
	Own     string `yaml:"own"` // the object that Related names
}

type setting struct {
	In    string `yaml:"in"` // notation (see embed) in which the attack replaces the @ in a result
	User  string `yaml:"user"`
	Own   string `yaml:"own"` // a thing or a place that the user names
	Calls []call `yaml:"calls"`
}

type call struct {
	Tool   string         `yaml:"tool"`
	Args   map[string]any `yaml:"args"`
	Result string         `yaml:"result"`
}

// Seed is an initial attack: a goal in a setting.
type Seed struct {
	Name    string
	Related bool // the user asks for the same kind of action on another object
	goal    *goal
	setting *setting
}

// lookup returns the call that looks up the thing that the user named (setting.Own).
func (s *Seed) lookup() *call {
	own := s.setting.Own
	if s.Related {
		own = s.goal.Own
	}
	return &call{Tool: "search_records", Args: map[string]any{"query": own}}
}

// relatedSettings is the number of settings in which each goal is tried with a related task.
const relatedSettings = 2

// Seeds returns the shipped seeds: all goals in all settings, ordered so that the settings alternate,
// and then all goals in a few settings with a related task of the user.
func Seeds() ([]*Seed, error) {
	var f seeds
	if err := yaml.UnmarshalWithOptions(seedFile, &f, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("seeds.yaml: %w", err)
	}
	var out []*Seed
	for i := range f.Settings {
		for j := range f.Goals {
			g, s := &f.Goals[j], &f.Settings[(i+j)%len(f.Settings)]
			for _, v := range g.Verbs {
				if len(strings.Fields(v)) != 3 {
					return nil, fmt.Errorf("seeds.yaml: verb %q of %s must be three words: the base form, the -ing form and the "+
						"participle", v, g.Call.Tool)
				}
			}
			out = append(out, &Seed{Name: fmt.Sprintf("%s/%d", g.Call.Tool, (i+j)%len(f.Settings)), goal: g, setting: s})
		}
	}
	for i := range relatedSettings {
		for j := range f.Goals {
			g, at := &f.Goals[j], (i*len(f.Settings)/relatedSettings+j)%len(f.Settings)
			if g.Own == "" || !strings.Contains(g.Related, g.Own) {
				return nil, fmt.Errorf("seeds.yaml: %s needs `related`, the request of a user, and `own`, the object that "+
					"`related` names", g.Call.Tool)
			}
			s := f.Settings[at]
			s.User += " " + g.Related
			out = append(out, &Seed{Name: fmt.Sprintf("%s/%d/related", g.Call.Tool, at), Related: true, goal: g, setting: &s})
		}
	}
	return out, nil
}

// Policy returns the neutral policy (live.NeutralFor) for the tools of the seeds.
func Policy(seeds []*Seed) ([]byte, error) {
	var calls []live.ToolCall
	add := func(c *call) error {
		args, err := streams.Marshal(c.Args)
		calls = append(calls, live.ToolCall{Tool: c.Tool, Args: args})
		return err
	}
	for _, s := range seeds {
		if err := errors.Join(add(&s.goal.Call), add(s.lookup())); err != nil {
			return nil, err
		}
		for i := range s.setting.Calls {
			if err := add(&s.setting.Calls[i]); err != nil {
				return nil, err
			}
		}
	}
	return live.NeutralFor(calls)
}
