package notify

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Config configures the notifications of an installation.
type Config struct {
	// Console is the address of the console, for links.
	Console string   `yaml:"console"`
	Routes  []*Route `yaml:"routes"`
}

// Route selects notifications and names their receiver.
type Route struct {
	Name string `yaml:"name"`
	// Projects are the projects whose notifications are sent. Empty means all but synthetic
	// ones.
	Projects []string `yaml:"projects"`
	// Severity is the lowest severity of alerts that are sent. Holds are sent whatever it is.
	Severity string `yaml:"severity"`
	On       []Kind `yaml:"on"` // default: hold and alert
	// Sensitivity is the highest sensitivity of texts that are sent. The default is
	// internal.
	Sensitivity string `yaml:"sensitivity"`
	// Group is how long notifications of one kind, project and rule or tool are collected. 0
	// means not at all.
	Group time.Duration `yaml:"group"`
	// Repeat is the pause before an unacknowledged notification is repeated, at most Times
	// times. 0 means never.
	Repeat time.Duration `yaml:"repeat"`
	Times  int           `yaml:"times"`
	// GiveUp is how long a delivery is tried before it becomes a dead letter; default 24h.
	GiveUp time.Duration `yaml:"give_up"`
	To     To            `yaml:"to"`

	ceiling  beliefs.Sensitivity
	receiver receiver
	scrub    *strings.Replacer // removes secrets from errors
}

// Defaults and limits of a route.
const (
	defaultGiveUp = 24 * time.Hour
	defaultTimes  = 3
	leastRepeat   = time.Minute
	mostGroup     = 10 * time.Minute
	maxRoutes     = 32
	leastPath     = 8  // minimum length in bytes of a URL path that counts as a secret
	leastToken    = 16 // minimum length in bytes of a part of the path that counts as a secret
)

var severities = []string{"info", "low", "medium", "high", "critical"}

// Load reads a configuration. Its errors name the position but no values, because values may be
// secrets.
func Load(file string) (*Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func parse(b []byte) (*Config, error) {
	c := new(Config)
	if err := yaml.UnmarshalWithOptions(b, c, yaml.Strict(), yaml.DisallowUnknownField()); err != nil {
		var at yaml.Error
		if strings.HasPrefix(err.Error(), "time: ") {
			return nil, errors.New("a duration cannot be read: want one such as 30s or 4h in group, repeat and give_up")
		}
		if !errors.As(err, &at) || at.GetToken() == nil {
			return nil, errors.New("this is not a notification configuration in YAML: see docs/notifications.md")
		}
		p := at.GetToken().Position
		var wrong *yaml.TypeError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("line %d, column %d: this value has another type, want %s", p.Line, p.Column,
				wrong.DstType)
		}
		var unknown *yaml.UnknownFieldError
		if errors.As(err, &unknown) {
			return nil, fmt.Errorf("line %d, column %d: %s: see docs/notifications.md", p.Line, p.Column, at.GetMessage())
		}
		return nil, fmt.Errorf("line %d, column %d: this cannot be read: see docs/notifications.md", p.Line, p.Column)
	}
	return c, c.check()
}

func (c *Config) check() error {
	if c.Console != "" {
		u, err := url.Parse(c.Console)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
			u.RawQuery != "" {
			return errors.New("console: want an address such as https://lazaret.example.org:4281")
		}
		c.Console = strings.TrimSuffix(c.Console, "/")
	}
	if len(c.Routes) == 0 || len(c.Routes) > maxRoutes {
		return fmt.Errorf("routes: there are %d, want 1 to %d", len(c.Routes), maxRoutes)
	}
	seen := make(map[string]bool)
	for i, r := range c.Routes {
		if r == nil {
			return fmt.Errorf("routes[%d] is empty", i)
		}
		if err := streams.CheckID("name", r.Name); err != nil {
			return fmt.Errorf("routes[%d]: %w", i, err)
		}
		if seen[r.Name] {
			return fmt.Errorf("route %s occurs twice", r.Name)
		}
		seen[r.Name] = true
		if err := r.check(); err != nil {
			return fmt.Errorf("route %s: %w", r.Name, err)
		}
	}
	return nil
}

func (r *Route) check() error {
	for _, p := range r.Projects {
		if err := streams.CheckID("projects", p); err != nil {
			return err
		}
	}
	r.Severity = cmp.Or(r.Severity, severities[0])
	if !slices.Contains(severities, r.Severity) {
		return fmt.Errorf("severity %q is unknown: use one of %s", r.Severity, strings.Join(severities, ", "))
	}
	if len(r.On) == 0 {
		r.On = []Kind{KindHold, KindAlert}
	}
	for _, k := range r.On {
		if !slices.Contains(kinds, k) {
			return fmt.Errorf("on: %q is unknown: use hold, alert or settled", k)
		}
	}
	if r.Sensitivity != "" {
		if err := r.ceiling.UnmarshalText([]byte(r.Sensitivity)); err != nil {
			return fmt.Errorf("sensitivity: %w", err)
		}
	}
	r.GiveUp, r.Times = cmp.Or(r.GiveUp, defaultGiveUp), cmp.Or(r.Times, defaultTimes)
	switch {
	case r.Group < 0 || r.Group > mostGroup:
		return fmt.Errorf("group: %v is not between 0 and %v", r.Group, mostGroup)
	case r.Repeat != 0 && r.Repeat < leastRepeat:
		return fmt.Errorf("repeat: %v is too short, want 0 or at least %v", r.Repeat, leastRepeat)
	case r.Times < 1:
		return errors.New("times: want a positive number")
	case r.GiveUp < 0:
		return errors.New("give_up: want a positive duration")
	}
	var err error
	if r.receiver, err = r.To.receiver(); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	if err := r.receiver.prepare(); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	var pairs []string
	for _, s := range r.receiver.secrets() {
		for _, part := range append([]string{s}, partsOf(s)...) {
			if part != "" {
				pairs = append(pairs, part, "[secret]")
			}
		}
	}
	r.scrub = strings.NewReplacer(pairs...)
	return nil
}

// partsOf returns the parts of a receiver's URL that may be secret and that may appear in an error: the
// path with and without the query, and their long parts.
func partsOf(address string) (out []string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	for _, s := range []string{u.RequestURI(), u.EscapedPath(), u.Path} {
		if len(s) >= leastPath {
			out = append(out, s)
		}
	}
	cuts := func(r rune) bool { return strings.ContainsRune("/&=", r) }
	for _, s := range strings.FieldsFunc(u.Path+"&"+u.RawQuery, cuts) {
		if len(s) >= leastToken {
			out = append(out, s)
		}
	}
	return out
}

// wants reports whether the route sends a notification.
func (r *Route) wants(n *Notice) bool {
	if !slices.Contains(r.On, n.Kind) {
		return false
	}
	if len(r.Projects) > 0 && !slices.Contains(r.Projects, n.Project) ||
		len(r.Projects) == 0 && streams.IsSynthetic(n.Project) {
		return false
	}
	return n.Kind != KindAlert || slices.Index(severities, n.Severity) >= slices.Index(severities, r.Severity)
}

// To names one receiver.
type To struct {
	Slack        *Slack        `yaml:"slack"`
	Teams        *Teams        `yaml:"teams"`
	Email        *Email        `yaml:"email"`
	Webhook      *Webhook      `yaml:"webhook"`
	Alertmanager *Alertmanager `yaml:"alertmanager"`
	Syslog       *Syslog       `yaml:"syslog"`
	OCSF         *OCSF         `yaml:"ocsf"`
}

// table lists the receivers by their names in the configuration.
var table = []struct {
	name string
	of   func(*To) receiver
}{
	{"slack", func(t *To) receiver { return or(t.Slack) }},
	{"teams", func(t *To) receiver { return or(t.Teams) }},
	{"email", func(t *To) receiver { return or(t.Email) }},
	{"webhook", func(t *To) receiver { return or(t.Webhook) }},
	{"alertmanager", func(t *To) receiver { return or(t.Alertmanager) }},
	{"syslog", func(t *To) receiver { return or(t.Syslog) }},
	{"ocsf", func(t *To) receiver { return or(t.OCSF) }},
}

// or returns p as a receiver, or a nil interface if p is nil because the configuration has no receiver of its kind.
func or[T any, P interface {
	*T
	receiver
}](p P) receiver {
	if p == nil {
		return nil
	}
	return p
}

func (t *To) receiver() (receiver, error) {
	var found receiver
	var names []string
	for _, x := range table {
		names = append(names, x.name)
		switch r := x.of(t); {
		case r == nil:
		case found != nil:
			return nil, errors.New("two receivers: use a route for each")
		default:
			found = r
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no receiver: use one of %s", strings.Join(names, ", "))
	}
	return found, nil
}

// Kind returns the name of the route's receiver.
func (r *Route) Kind() string {
	for _, x := range table {
		if x.of(&r.To) != nil {
			return x.name
		}
	}
	return ""
}

// secretOf returns a secret from the configuration, or from the file that the
// configuration names.
func secretOf(field, value, file string) (string, error) {
	if value != "" && file != "" {
		return "", fmt.Errorf("%s and %s_file are both set: use one", field, field)
	}
	if file == "" {
		return value, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_file: %w", field, err)
	}
	return strings.TrimSpace(string(b)), nil
}
