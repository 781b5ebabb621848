package probe

import (
	"cmp"
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

// Scenario is the content of a scenario file.
type Scenario struct {
	Name string `yaml:"name"`
	// Scenario describes the attack, Asserts the assertions, and DoesNotClaim what a passing probe does
	// not prove.
	Scenario     string `yaml:"scenario"`
	Asserts      string `yaml:"asserts"`
	DoesNotClaim string `yaml:"does_not_claim"`
	// Follows is a reference to a description of the attack or invariant.
	Follows string `yaml:"follows"`
	// Policy changes the policy that all probes use (see Patch).
	Policy map[string]any `yaml:"policy"`
	// Agents maps the name of an agent to the only origins with which its credential may publish.
	Agents   map[string][]string `yaml:"agents"`
	Steps    []Step              `yaml:"steps"`
	Contrast *Contrast           `yaml:"contrast"`
}

// Contrast describes how to disable the scenario's defense. Every field changes the pipeline or the
// trusted keys, never the assertions.
type Contrast struct {
	Off   string `yaml:"off"`   // description of the defense
	Fails string `yaml:"fails"` // the step whose assertions must then fail
	// Rules are rules of the shipped packs that an exception disables in the project.
	Rules  []string       `yaml:"rules"`
	Policy map[string]any `yaml:"policy"` // a further patch of the policy
	// Label makes hosts label content of one origin as another, instead of labeling honestly.
	Label map[string]string `yaml:"label"`
	// Grant gives the credentials of Agents every origin.
	Grant bool `yaml:"grant"`
	// Trust pins a signer's key for a role, or for none.
	Trust map[string]string `yaml:"trust"`
	// Erase uses an empty data folder when the scenario restarts.
	Erase bool `yaml:"erase"`
	// Role maps roles to the roles whose credentials are used in their place.
	Role map[string]string `yaml:"role"`
	// Ceiling overrides the ceiling of exports.
	Ceiling string `yaml:"ceiling"`
	// Obey signs every proposal of reflection with this signer's key.
	Obey string `yaml:"obey"`
}

// Step is one step. Exactly one of the fields from Observe to Restart is set: it is the kind of the step.
type Step struct {
	// ID names the step, its event, and, as "$ID", the belief that came from it.
	ID      string `yaml:"id"`
	As      string `yaml:"as"`      // agent; default "agent"
	Session string `yaml:"session"` // default "s1"
	Project string `yaml:"project"` // a second project of the scenario
	// Posing and Into publish with the step's own credential as another agent or into another project.
	// They are used with permitted.
	Posing string `yaml:"posing"`
	Into   string `yaml:"into"`
	// After is additional virtual time before the step; the default pause is five seconds.
	After string `yaml:"after"`
	Times int    `yaml:"times"` // repetitions, default 1

	Observe  map[string]any `yaml:"observe"`  // the fields of an obs event, and origin
	Remember map[string]any `yaml:"remember"` // the fields of a mem event, and origin
	Recall   map[string]any `yaml:"recall"`
	Gate     map[string]any `yaml:"gate"`
	Tools    map[string]any `yaml:"tools"`
	Start    map[string]any `yaml:"start"`    // starts a session
	Decision map[string]any `yaml:"decision"` // a dec event
	Decide   map[string]any `yaml:"decide"`   // an act event
	Outcome  map[string]any `yaml:"outcome"`  // an out event; "$ID.digest" is the digest of step ID's action
	Again    string         `yaml:"again"`    // id of a step whose proposal is sent again with the same bytes
	Resolve  *Resolve       `yaml:"resolve"`
	Await    *Await         `yaml:"await"`
	Activate *Activate      `yaml:"activate"`
	Belief   string         `yaml:"belief"` // "$ID" of a belief whose current state is read
	Attempt  *Attempt       `yaml:"attempt"`
	Export   *Export        `yaml:"export"`
	Lessons  *Lessons       `yaml:"lessons"`
	Reflect  bool           `yaml:"reflect"` // runs ingest.Reflect on the project's beliefs
	Restart  bool           `yaml:"restart"`

	Expect *Expect `yaml:"expect"`
	after  time.Duration
}

// Resolve is a signed resolution of a proposal's hold.
type Resolve struct {
	Hold     string `yaml:"hold"` // the step with the proposal
	Decision string `yaml:"decision"`
	By       string `yaml:"by"` // name of the signer
	// Forge is a forgery: name (another's name and key hash on the signer's signature), action
	// (signature for another action), altered (changed after signing).
	Forge string `yaml:"forge"`
}

// Await waits, in real time, until a hold has ended.
type Await struct {
	Hold  string `yaml:"hold"`
	State string `yaml:"state"`
}

// Activate activates a policy, signed by a signer.
type Activate struct {
	Policy map[string]any `yaml:"policy"` // a patch
	By     string         `yaml:"by"`
}

// Attempt publishes to a subject with a role's credential. Expect.Permitted says whether the server must permit
// it. The message's body has no effect.
type Attempt struct {
	Role string `yaml:"role"`
	// Subject may contain $project and $partition, which stand for the scenario's project and the
	// project's partition.
	Subject string `yaml:"subject"`
}

// Export exports the project's data.
type Export struct {
	As      string `yaml:"as"`      // spans (OpenTelemetry, with content) or log (JSON lines)
	Ceiling string `yaml:"ceiling"` // default internal
}

// Lessons exports the project's lessons (see ingest.Lessons).
type Lessons struct {
	Age string `yaml:"age"` // how long a belief must have been supported to count as a lesson
}

// Expect are the assertions about a step. Unset fields are not checked.
type Expect struct {
	Verdict string   `yaml:"verdict"`
	Level   string   `yaml:"level"`
	Codes   []string `yaml:"codes"` // codes in the verdict's reasons, or of the error
	Rules   []string `yaml:"rules"` // rules in the reasons for a hold or denial
	Agent   string   `yaml:"agent"` // agent in the verdict
	Session string   `yaml:"session"`
	// Admitted must be exactly the admitted items of a recall. The other lists must be contained in the
	// respective channels, and NotServed must be in none. An item is a belief ("$ID") or a part of a
	// content.
	Admitted       *[]string `yaml:"admitted"`
	ContextOnly    []string  `yaml:"context_only"`
	Contradictions []string  `yaml:"contradictions"`
	NotServed      []string  `yaml:"not_served"`
	// Refused maps beliefs to the reasons of their refusal.
	Refused map[string]string `yaml:"refused"`
	// Belief is the expected state of a belief: of Step.Belief, if it is set, otherwise of the belief from
	// the memory write or the observed content. Envelope is the expected state of the belief that the tool
	// was called and returned the result. Keys are truth, retrieval, security, freshness, origin, quality,
	// staged.
	Belief   map[string]string `yaml:"belief"`
	Envelope map[string]string `yaml:"envelope"`
	// Alerts are rules that must have raised an alert in the project so far, and NoAlerts rules that
	// must not.
	Alerts   []string `yaml:"alerts"`
	NoAlerts []string `yaml:"no_alerts"`
	// Permitted says whether the server must permit the publish.
	Permitted *bool  `yaml:"permitted"`
	State     string `yaml:"state"` // state of the hold after a resolution
	Check     string `yaml:"check"` // the check that a resolution must fail
	// InForce says whether an activation must succeed.
	InForce *bool `yaml:"in_force"`
	// Exported are texts that the export must contain, and NotExported texts that it must not. Root
	// requires that the tree's root can be computed from the export.
	Exported    []string `yaml:"exported"`
	NotExported []string `yaml:"not_exported"`
	Root        bool     `yaml:"root"`
	// Lessons must be exactly the exported lessons ("$ID"). Proposed must be exactly the proposals of
	// reflection: the belief and its replacement.
	Lessons  *[]string          `yaml:"lessons"`
	Proposed *map[string]string `yaml:"proposed"`
}

// The defaults of a step.
const (
	defaultAgent   = "agent"
	defaultSession = "s1"
)

// kinds returns the names of the kinds of step that are set, in order.
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

// Load reads the *.yaml files in a folder, sorted by name. Its errors contain file and line.
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

// decode parses YAML strictly. The parser panics on some malformed texts; decode returns an error for
// them.
func decode(b []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid YAML: %v", r)
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
		return fmt.Errorf("name is %q: use the name of the file without .yaml, 1 to 46 characters of a-z 0-9 -", s.Name)
	case s.Scenario == "" || s.Asserts == "" || s.DoesNotClaim == "":
		return errors.New("scenario, asserts and does_not_claim are required")
	case len(s.Steps) == 0:
		return errors.New("the scenario has no steps")
	case s.Contrast != nil && (s.Contrast.Off == "" || s.Contrast.Fails == ""):
		return errors.New("contrast needs off, the defence to switch off, and fails, the step that then fails")
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
		st.ID = cmp.Or(st.ID, fmt.Sprintf("step%d", i+1))
		if !streams.ValidID(st.ID) || ids[st.ID] {
			return fail("id %q is not an identifier, or not the first of its name", st.ID)
		}
		ids[st.ID] = true
		st.As = cmp.Or(st.As, defaultAgent)
		st.Session = cmp.Or(st.Session, defaultSession)
		st.Times = cmp.Or(st.Times, 1)
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
			return fail("resolve: hold %q is not a step before it", r.Hold)
		}
		if a := st.Await; a != nil && !ids[a.Hold] {
			return fail("await: hold %q is not a step before it", a.Hold)
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
		return errors.New("no step expects anything, so the scenario tests nothing")
	}
	if s.Contrast != nil && !ids[s.Contrast.Fails] {
		return fmt.Errorf("contrast.fails is %q, but no step has this id", s.Contrast.Fails)
	}
	for _, os := range s.Agents {
		for _, o := range os {
			if !beliefs.Origin(o).Valid() {
				return fmt.Errorf("agents: unknown origin %q: use some of %v", o, beliefs.Origins())
			}
		}
	}
	return nil
}

// needsOwnPipeline reports whether the scenario cannot share a pipeline.
func (s *Scenario) needsOwnPipeline() bool {
	return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Restart || st.Activate != nil })
}

// reads reports whether the scenario needs the whole log.
func (s *Scenario) reads() bool {
	return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Export != nil && st.Export.As == "log" })
}

// signs reports whether people sign something in the scenario.
func (s *Scenario) signs() bool {
	return slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Resolve != nil })
}

// Named returns the scenarios with the given names, or all if there are no names.
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
