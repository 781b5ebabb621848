package policy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// Limits of the section on memory.
const (
	MaxWritable   = 256
	MaxPromotions = 64
	MaxRecords    = 256
	MinFreshness  = time.Second
	MaxFreshness  = 100 * 366 * 24 * time.Hour
	maxSources    = 16
)

// memoryText is the section on memory writes.
type memoryText struct {
	Writable    []writableText    `yaml:"writable"`
	Compaction  string            `yaml:"compaction"`
	StaleAfter  string            `yaml:"stale_after"`
	ExpireAfter string            `yaml:"expire_after"`
	TTL         map[string]string `yaml:"ttl"`
	Promote     []promoteText     `yaml:"promote"`
	Records     []string          `yaml:"records"`
}

type writableText struct {
	Projects   []string `yaml:"projects"`
	Agents     []string `yaml:"agents"`
	Categories []string `yaml:"categories"`
}

type promoteText struct {
	Name       string   `yaml:"name"`
	Tools      []string `yaml:"tools"`
	Categories []string `yaml:"categories"`
	Sources    *int     `yaml:"sources"`
	Owner      string   `yaml:"owner"`
	Reason     string   `yaml:"reason"`
}

// The ways to treat the summary that a compaction makes of a context.
const (
	CompactionStage = "stage" // context only until a person confirms it; the default
	CompactionHold  = "hold"  // held until a person decides
)

// memory is the compiled section on memory writes.
type memory struct {
	writable   []writableText
	compaction string
	stale      time.Duration
	expire     time.Duration
	ttl        map[string]time.Duration
	promotions []Promotion
	index      index // tools of the promotions; only exact names and patterns
	records    index // systems of record; only exact names and patterns
}

// Promotion is a rule by which an unverified belief becomes supported without a person: new results
// of tools that the operator trusts state the same triples. Promotion does not change the belief's
// retrieval. Each use is logged with its evidence.
type Promotion struct {
	Name       string
	Owner      string
	Reason     string
	Sources    int // number of different tools that must state it
	categories []string
}

// For reports whether the promotion applies to beliefs of a category.
func (p *Promotion) For(category string) bool {
	return len(p.categories) == 0 || slices.Contains(p.categories, strings.ToLower(category))
}

func (p *Policy) compileMemory(y *strictyaml.Document, t *memoryText) error {
	m := &p.memory
	m.index, m.records, m.compaction = newIndex(), newIndex(), CompactionStage
	if t == nil {
		return nil
	}
	at := func(format string, args []any, path ...any) error {
		return y.Errorf(append([]any{"memory"}, path...), format, args...)
	}
	if len(t.Writable) > MaxWritable {
		return at("%d entries are too many, at most %d are possible", []any{len(t.Writable), MaxWritable}, "writable")
	}
	for i, w := range t.Writable {
		if len(w.Categories) == 0 {
			return at("this entry of `writable` names no categories: list the categories that may be written, or \"*\" for any",
				nil, "writable", i)
		}
		for j, c := range w.Categories {
			w.Categories[j] = strings.ToLower(c)
		}
		m.writable = append(m.writable, w)
	}
	switch t.Compaction {
	case "":
	case CompactionStage, CompactionHold:
		m.compaction = t.Compaction
	default:
		return at("compaction is %q: use %s or %s; a summary of a context is never believed without other evidence",
			[]any{t.Compaction, CompactionStage, CompactionHold}, "compaction")
	}
	for _, d := range []struct {
		key  string
		text string
		into *time.Duration
	}{{"stale_after", t.StaleAfter, &m.stale}, {"expire_after", t.ExpireAfter, &m.expire}} {
		if d.text == "" {
			continue
		}
		v, err := duration(d.text, MinFreshness, MaxFreshness)
		if err != nil {
			return at("%w", []any{err}, d.key)
		}
		*d.into = v
	}
	if m.stale > 0 && m.expire > 0 && m.expire < m.stale {
		return at("expire_after is %s, less than stale_after, %s", []any{m.expire, m.stale}, "expire_after")
	}
	m.ttl = make(map[string]time.Duration)
	for _, c := range slices.Sorted(maps.Keys(t.TTL)) {
		v, err := duration(t.TTL[c], MinFreshness, MaxFreshness)
		if err != nil {
			return at("ttl of %s: %w", []any{c, err}, "ttl", c)
		}
		m.ttl[strings.ToLower(c)] = v
	}
	if err := m.compileRecords(y, t.Records); err != nil {
		return err
	}
	return p.compilePromotions(y, t.Promote)
}

func (m *memory) compileRecords(y *strictyaml.Document, tools []string) error {
	if len(tools) > MaxRecords {
		return y.Errorf([]any{"memory", "records"}, "%d systems of record are too many, at most %d are possible",
			len(tools), MaxRecords)
	}
	for i, tool := range tools {
		if strings.Trim(tool, "*?._-/: ") == "" {
			return y.Errorf([]any{"memory", "records", i}, "`records` must not name every tool: list the tools")
		}
		if err := m.records.addPattern(tool, 0); err != nil {
			return y.Errorf([]any{"memory", "records", i}, "`records`: %w", err)
		}
	}
	return nil
}

// Record reports whether a tool is a system of record. Its results may be used for planning as
// facts, but never as instructions.
func (p *Policy) Record(tool string) bool {
	if len(tool) > MaxTool {
		return false
	}
	name := parseName(tool, nil, nil)
	if !name.plain {
		return false // a name that is not ASCII may imitate the name of another tool
	}
	var hit [1]seen
	p.memory.records.mark(&name, hit[:])
	return hit[0]&seenTool != 0
}

func (p *Policy) compilePromotions(y *strictyaml.Document, texts []promoteText) error {
	if len(texts) > MaxPromotions {
		return y.Errorf([]any{"memory", "promote"}, "%d promotions are too many, at most %d are possible", len(texts),
			MaxPromotions)
	}
	for i, t := range texts {
		at := func(key, format string, args ...any) error {
			return y.Errorf([]any{"memory", "promote", i, key}, format, args...)
		}
		if err := streams.CheckID("name of a promotion", t.Name); err != nil {
			return at("name", "%w", err)
		}
		if slices.ContainsFunc(p.memory.promotions, func(x Promotion) bool { return x.Name == t.Name }) {
			return at("name", "promotion %q is listed twice", t.Name)
		}
		if len(t.Tools) == 0 {
			return at("tools", "promotion %s names no tools", t.Name)
		}
		if strings.TrimSpace(t.Owner) == "" || strings.TrimSpace(t.Reason) == "" {
			return at("name", "promotion %s needs an owner and a reason", t.Name)
		}
		x := Promotion{Name: t.Name, Owner: t.Owner, Reason: t.Reason, Sources: 1}
		if t.Sources != nil {
			if x.Sources = *t.Sources; x.Sources < 1 || x.Sources > maxSources {
				return at("sources", "`sources` of promotion %s is %d, want 1 to %d", t.Name, x.Sources, maxSources)
			}
		}
		for _, c := range t.Categories {
			x.categories = append(x.categories, strings.ToLower(c))
		}
		for j, tool := range t.Tools {
			if strings.Trim(tool, "*?._-/: ") == "" {
				return y.Errorf([]any{"memory", "promote", i, "tools", j}, "promotion %s must not name every tool: list the tools",
					t.Name)
			}
			if err := p.memory.index.addPattern(tool, i); err != nil {
				return y.Errorf([]any{"memory", "promote", i, "tools", j}, "tools of %s: %w", t.Name, err)
			}
		}
		p.memory.promotions = append(p.memory.promotions, x)
	}
	return nil
}

// Writable reports whether an agent may write memories of a category. If the list `writable` of the
// policy is empty, every agent may write every category. A write that no entry of the list allows
// is staged: the memory is context only until a person confirms it.
func (p *Policy) Writable(project, agent, category string) bool {
	if len(p.memory.writable) == 0 {
		return true
	}
	in := func(list []string, v string) bool {
		return len(list) == 0 || slices.Contains(list, "*") || slices.Contains(list, v)
	}
	return slices.ContainsFunc(p.memory.writable, func(w writableText) bool {
		return in(w.Projects, project) && in(w.Agents, agent) && in(w.Categories, strings.ToLower(category))
	})
}

// Compaction returns how to treat the summary that a compaction makes of a context.
func (p *Policy) Compaction() string { return p.memory.compaction }

// Lifetime returns how long after its last confirmation a memory of a category is fresh, and how
// long it is served. Zero means no limit.
func (p *Policy) Lifetime(category string) (stale, expire time.Duration) {
	stale, expire = p.memory.stale, p.memory.expire
	if d, ok := p.memory.ttl[strings.ToLower(category)]; ok {
		if expire = d; stale > d {
			stale = 0
		}
	}
	return stale, expire
}

// Promotions returns the promotions that the results of a tool can contribute to.
func (p *Policy) Promotions(tool string) []*Promotion {
	if len(p.memory.promotions) == 0 || len(tool) > MaxTool {
		return nil
	}
	name := parseName(tool, nil, nil)
	if !name.plain {
		return nil // a name that is not ASCII may imitate the name of another tool
	}
	hits := make([]seen, len(p.memory.promotions))
	p.memory.index.mark(&name, hits)
	var out []*Promotion
	for i := range p.memory.promotions {
		if hits[i]&seenTool != 0 {
			out = append(out, &p.memory.promotions[i])
		}
	}
	return out
}

// PromotedBy is the class of evidence from a promotion's tools.
const PromotedBy = beliefs.ToolResult
