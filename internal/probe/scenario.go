package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Scenario is one probe, as its file has it.
type Scenario struct {
	Name string `yaml:"name"`
	// Scenario is the attack in words, Asserts what holds, DoesNotClaim what a
	// green probe does not show.
	Scenario     string `yaml:"scenario"`
	Asserts      string `yaml:"asserts"`
	DoesNotClaim string `yaml:"does_not_claim"`
	// Follows is where the attack or the invariant is described.
	Follows string `yaml:"follows"`
	// Policy is a patch to the policy that probes run under (see Patch).
	Policy map[string]any `yaml:"policy"`
	// Agents are credentials that do not speak for every origin.
	Agents   map[string][]string `yaml:"agents"`
	Steps    []Step              `yaml:"steps"`
	Contrast *Contrast           `yaml:"contrast"`
}

// Contrast says which defence is switched off, and how. Each of the ways is a
// change to the pipeline or to who is trusted, never to what is asserted.
type Contrast struct {
	Off   string `yaml:"off"`   // the defence, in words
	Fails string `yaml:"fails"` // the step whose expectation has to fail then
	// Rules of the shipped packs that have no effect: the project is excepted.
	Rules  []string       `yaml:"rules"`
	Policy map[string]any `yaml:"policy"` // a further patch to the policy
	// Label has hosts label content of an origin as of another one: honest
	// labels are off.
	Label map[string]string `yaml:"label"`
	// Grant lets the credentials of Agents speak for every origin.
	Grant bool `yaml:"grant"`
	// Trust pins a signer's key for a role, or for none.
	Trust map[string]string `yaml:"trust"`
	// Erase starts from an empty data folder where the scenario restarts.
	Erase bool `yaml:"erase"`
	// Role replaces a role's credential by another one's.
	Role map[string]string `yaml:"role"`
	// Ceiling is that of exports, whatever they ask for.
	Ceiling string `yaml:"ceiling"`
	// Obey signs what reflection proposes with a signer's key at once.
	Obey string `yaml:"obey"`
}

// Step is one step. Exactly one of its kinds is set.
type Step struct {
	// ID names the step, its event, and, as "$ID", the belief that came of it.
	ID      string `yaml:"id"`
	As      string `yaml:"as"`      // agent; "agent" unless said
	Session string `yaml:"session"` // "s1" unless said
	Project string `yaml:"project"` // a second project of the scenario's own
	// Posing and Into publish with the step's own credential as another agent and
	// into another project; with permitted.
	Posing string `yaml:"posing"`
	Into   string `yaml:"into"`
	// After is virtual time that passes before the step, besides five seconds.
	After string `yaml:"after"`
	Times int    `yaml:"times"` // how often, 1 unless said

	Observe  map[string]any `yaml:"observe"`  // an obs event, and origin
	Remember map[string]any `yaml:"remember"` // a mem event, and origin
	Recall   map[string]any `yaml:"recall"`
	Gate     map[string]any `yaml:"gate"`
	Tools    map[string]any `yaml:"tools"`
	Start    map[string]any `yaml:"start"`    // of a session
	Decision map[string]any `yaml:"decision"` // a dec event
	Decide   map[string]any `yaml:"decide"`   // an act event
	Outcome  map[string]any `yaml:"outcome"`  // an out event; "$ID.digest" is an action's
	Again    string         `yaml:"again"`    // asks again what a step proposed, in the same bytes
	Resolve  *Resolve       `yaml:"resolve"`
	Await    *Await         `yaml:"await"`
	Activate *Activate      `yaml:"activate"`
	Belief   string         `yaml:"belief"` // looks at a belief as it stands
	Attempt  *Attempt       `yaml:"attempt"`
	Export   *Export        `yaml:"export"`
	Lessons  *Lessons       `yaml:"lessons"`
	Reflect  bool           `yaml:"reflect"` // on the project's beliefs
	Restart  bool           `yaml:"restart"`

	Expect *Expect `yaml:"expect"`
	after  time.Duration
}

// Resolve is a signed resolution of a proposal's hold.
type Resolve struct {
	Hold     string `yaml:"hold"` // step that proposed it
	Decision string `yaml:"decision"`
	By       string `yaml:"by"` // signer
	// Forge is what is wrong with it: name (another's name and key hash over the
	// signer's signature), action (of another action), altered (after signing).
	Forge string `yaml:"forge"`
}

// Await waits, in real time, until a hold has ended.
type Await struct {
	Hold  string `yaml:"hold"`
	State string `yaml:"state"`
}

// Activate puts a policy in force, signed by a signer.
type Activate struct {
	Policy map[string]any `yaml:"policy"` // a patch
	By     string         `yaml:"by"`
}

// Attempt publishes to a subject with a role's credential; with permitted. The
// body is none that anybody would obey.
type Attempt struct {
	Role string `yaml:"role"`
	// Subject is one in which $project and $partition are the scenario's own.
	Subject string `yaml:"subject"`
}

// Export exports the project's data.
type Export struct {
	As      string `yaml:"as"`      // spans, for OpenTelemetry with content, or log, as JSON lines
	Ceiling string `yaml:"ceiling"` // internal unless said
}

// Lessons harvests the project's lessons.
type Lessons struct {
	Age string `yaml:"age"` // how long they have had support
}

// Expect is what is asserted of a step. Unset fields are not checked.
type Expect struct {
	Verdict string   `yaml:"verdict"`
	Level   string   `yaml:"level"`
	Codes   []string `yaml:"codes"` // in the reasons, or of the error
	Rules   []string `yaml:"rules"` // in the reasons against it
	Agent   string   `yaml:"agent"` // that the verdict names
	Session string   `yaml:"session"`
	// Admitted are exactly what a recall admits; the others are among what it
	// lists. Each is a belief ("$ID") or a part of a content. NotServed is in none
	// of the channels.
	Admitted       *[]string `yaml:"admitted"`
	ContextOnly    []string  `yaml:"context_only"`
	Contradictions []string  `yaml:"contradictions"`
	NotServed      []string  `yaml:"not_served"`
	// Refused are beliefs with the reason of their refusal.
	Refused map[string]string `yaml:"refused"`
	// Belief is of a memory, of the content read, or of what belief names; Envelope
	// of the claim that a tool returned: truth, retrieval, security, freshness,
	// origin, quality, staged.
	Belief   map[string]string `yaml:"belief"`
	Envelope map[string]string `yaml:"envelope"`
	// Alerts are rules that alerted in the project up to here, and NoAlerts rules
	// that did not.
	Alerts   []string `yaml:"alerts"`
	NoAlerts []string `yaml:"no_alerts"`
	// Permitted is whether the server let the credential publish there.
	Permitted *bool  `yaml:"permitted"`
	State     string `yaml:"state"` // of the hold, after a resolution
	Check     string `yaml:"check"` // that a resolution failed
	// InForce is whether an activation is obeyed.
	InForce *bool `yaml:"in_force"`
	// Exported are parts of what left, and NotExported of what did not. Root says
	// that the tree's root can be computed from what left.
	Exported    []string `yaml:"exported"`
	NotExported []string `yaml:"not_exported"`
	Root        bool     `yaml:"root"`
	// Lessons are exactly those that were harvested ("$ID"), and Proposed exactly
	// what reflection proposed: the belief, and the one that would take its place.
	Lessons  *[]string          `yaml:"lessons"`
	Proposed *map[string]string `yaml:"proposed"`
}

// The defaults of a step.
const (
	defaultAgent   = "agent"
	defaultSession = "s1"
)

// kinds are the kinds that are set, in order.
func (s *Step) kinds() (out []string) {
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"observe", s.Observe != nil}, {"remember", s.Remember != nil}, {"recall", s.Recall != nil}, {"gate", s.Gate != nil},
		{"tools", s.Tools != nil}, {"start", s.Start != nil}, {"decision", s.Decision != nil}, {"decide", s.Decide != nil},
		{"outcome", s.Outcome != nil}, {"resolve", s.Resolve != nil}, {"await", s.Await != nil},
		{"activate", s.Activate != nil},
		{"again", s.Again != ""}, {"belief", s.Belief != ""}, {"attempt", s.Attempt != nil}, {"export", s.Export != nil},
		{"lessons", s.Lessons != nil},
		{"reflect", s.Reflect}, {"restart", s.Restart},
	} {
		if k.set {
			out = append(out, k.name)
		}
	}
	return out
}

// Load reads the scenarios of a folder, the *.yaml files in it, in the order of
// their names. Errors name file and line.
func Load(fsys fs.FS, dir string) ([]*Scenario, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no *.yaml file in this folder", dir)
	}
	var out []*Scenario
	var faults []error
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		s := new(Scenario)
		if err := decode(b, s); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err := s.check(strings.TrimSuffix(path.Base(name), ".yaml")); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		out = append(out, s)
	}
	return out, errors.Join(faults...)
}

// decode reads YAML strictly. The parser panics on some texts that are none:
// those are errors here.
func decode(b []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be read as YAML: %v", r)
		}
	}()
	if err := yaml.UnmarshalWithOptions(b, v, yaml.Strict()); err != nil {
		return errors.New(yaml.FormatError(err, false, true))
	}
	return nil
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,45}$`)

func (s *Scenario) check(file string) error {
	switch {
	case !validName.MatchString(s.Name) || s.Name != file:
		return fmt.Errorf("name is %q, want that of the file: 1 to 46 of a-z 0-9 -", s.Name)
	case s.Scenario == "" || s.Asserts == "" || s.DoesNotClaim == "":
		return errors.New("scenario, asserts and does_not_claim have to be said")
	case len(s.Steps) == 0:
		return errors.New("it has no steps")
	case s.Contrast != nil && (s.Contrast.Off == "" || s.Contrast.Fails == ""):
		return errors.New("contrast: off has to say which defence is off, and fails which step fails then")
	}
	asserted := false
	ids := map[string]bool{}
	for i := range s.Steps {
		st := &s.Steps[i]
		fail := func(format string, args ...any) error {
			return fmt.Errorf("step %d: %w", i+1, fmt.Errorf(format, args...))
		}
		if k := st.kinds(); len(k) != 1 {
			return fail("it is %v, want one kind", k)
		}
		if st.ID == "" {
			st.ID = fmt.Sprintf("step%d", i+1)
		}
		if !streams.ValidID(st.ID) || ids[st.ID] {
			return fail("id %q is no identifier, or not the first of its name", st.ID)
		}
		ids[st.ID] = true
		if st.As == "" {
			st.As = defaultAgent
		}
		if st.Session == "" {
			st.Session = defaultSession
		}
		if st.Times == 0 {
			st.Times = 1
		}
		if st.After != "" {
			d, err := time.ParseDuration(st.After)
			if err != nil || d < 0 {
				return fail("after is %q, want a duration such as 72h", st.After)
			}
			st.after = d
		}
		for _, body := range []map[string]any{st.Observe, st.Remember} {
			if o, ok := body["origin"].(string); body != nil && (!ok || !beliefs.Origin(o).Valid()) {
				return fail("origin is %v, use one of %v", body["origin"], beliefs.Origins())
			}
		}
		if r := st.Resolve; r != nil && !ids[r.Hold] {
			return fail("resolve: hold %q is no step before it", r.Hold)
		}
		if a := st.Await; a != nil && !ids[a.Hold] {
			return fail("await: hold %q is no step before it", a.Hold)
		}
		if (st.Posing != "" || st.Into != "") && (st.Expect == nil || st.Expect.Permitted == nil) {
			return fail("posing and into need expect: {permitted: …}")
		}
		if a := st.Attempt; a != nil && (a.Role == "" || a.Subject == "" || st.Expect == nil || st.Expect.Permitted == nil) {
			return fail("attempt needs a role, a subject and expect: {permitted: …}")
		}
		if x := st.Export; x != nil {
			if x.As != "spans" && x.As != "log" {
				return fail("export: as is %q, use spans or log", x.As)
			}
			if err := new(beliefs.Sensitivity).UnmarshalText([]byte(x.Ceiling)); x.Ceiling != "" && err != nil {
				return fail("export: ceiling: %w", err)
			}
		}
		if l := st.Lessons; l != nil && l.Age != "" {
			if _, err := time.ParseDuration(l.Age); err != nil {
				return fail("lessons: age is %q, want a duration such as 24h", l.Age)
			}
		}
		asserted = asserted || st.Expect != nil || st.Await != nil
	}
	if !asserted {
		return errors.New("no step expects anything")
	}
	if s.Contrast != nil && !ids[s.Contrast.Fails] {
		return fmt.Errorf("contrast: fails is %q, which is no step", s.Contrast.Fails)
	}
	for _, os := range s.Agents {
		for _, o := range os {
			if !beliefs.Origin(o).Valid() {
				return fmt.Errorf("agents: origin %q, use some of %v", o, beliefs.Origins())
			}
		}
	}
	return nil
}

// alone says that a scenario needs a pipeline of its own.
func (s *Scenario) alone() bool {
	return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Restart || st.Activate != nil })
}

// reads says that it needs the whole log.
func (s *Scenario) reads() bool {
	return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Export != nil && st.Export.As == "log" })
}

// signs says that people sign something in it.
func (s *Scenario) signs() bool {
	return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Resolve != nil })
}

// Named are the scenarios of these names, or all if there are none.
func Named(all []*Scenario, names []string) ([]*Scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []*Scenario
	for _, name := range names {
		i := slices.IndexFunc(all, func(s *Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no scenario is called %q", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}
