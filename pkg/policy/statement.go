package policy

import (
	"regexp"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
)

// The first words of statements that change something, grouped by their worst effect. Statements with other first
// words only read.
var (
	statementAdds = contentWords(strings.Fields(`insert create comment refresh reindex vacuum cluster optimize repair
		notify lock import put`))
	statementChanges  = contentWords(strings.Fields("update merge upsert replace alter rename set pragma reset"))
	statementDestroys = contentWords(strings.Fields("delete drop truncate purge kill shutdown undrop flush"))
	statementRuns     = contentWords(strings.Fields(`exec execute call do copy load attach detach install uninstall unload
		handler xp_cmdshell declare prepare begin`))
	statementGrants = contentWords(strings.Fields("grant revoke deny"))
	// rightsObjects and codeObjects follow create, alter and drop.
	rightsObjects = contentWords(strings.Fields("user role login policy group"))
	codeObjects   = contentWords(strings.Fields(`function procedure trigger extension event language rule server foreign
		package aggregate plugin`))
)

// The forms of statements. Plain words rarely have them. So they tell a statement in an argument named query from
// the words of a search ("how to delete a row"). <n> stands for a name, and two single
// quotes for any string literal.
var (
	strict = forms(
		`delete\s+from\s+(only\s+)?<n>(\s+(as\s+)?\w+)?\s+(where\b.*[=<>]|using\s+<n>\s+where\b|returning\s)`,
		`delete\s+<n>\s+from\s.*\bwhere\b.*[=<>]`,
		`update\s+(only\s+)?<n>(\s+(as\s+)?\w+)?\s+set\s+<n>\s*=`,
		`(insert\s+(\w+\s+){0,2}into|replace\s+into)\s+<n>\s*(\(|values\b|select\b|default\b|set\s+<n>\s*=)`,
		`merge\s+into\s+<n>.*\busing\b.*\bon\b`,
		`create\s+(or\s+replace\s+|\w+\s+)?(table|view|index|schema|type)\s+(if\s+not\s+exists\s+)?<n>\s*`+
			`(\(|as\s+select\b|on\s+<n>\s*\()`,
		`create\s+(or\s+replace\s+)?(function|procedure|trigger|extension)\s+.*(\breturns\b|\bbegin\b|`+
			`\bexecute\b|'')`,
		`(create|alter)\s+(user|role|login)\s+<n>\s+(identified|password|with|superuser|createrole)\b`,
		`alter\s+(table|database|schema|view|system)\s+<n>\s+(add|drop|rename|modify|set|owner|alter|enable|disable)\b`,
		`drop\s+(table|database|schema|view|index|user|role)\s+(if\s+exists\s+<n>|<n>\s+cascade$)`,
		`(grant|revoke)\s+(all|select|insert|update|delete|execute|usage|connect|super)\b.*\bon\b.*\b(to|from)\b`,
		`(call|exec|execute)\s+<n>\s*\(.*\)$`, `exec\s+<n>\s+(@|'')`,
		`do\s+(language\s+\w+\s+)?''`, `copy\s+.*\b(from|to)\s+(''|program|stdin|stdout)`,
		`load\s+data\s+(local\s+)?infile`, `attach\s+(database\s+)?''`, `pragma\s+<n>\s*=`,
		`set\s+(global|session)\s+<n>\s*=`, `select\b.*\binto\s+(outfile|dumpfile)\b`)
	// short are forms that plain words may have too ("drop table syntax"). They count only in capitals, or if the
	// text is certain to be a statement.
	short = forms(`delete\s+from\s+<n>(\s+where\b.*)?$`,
		`(drop|truncate)\s+(table|database|schema|view|index|user|role)\s+<n>`,
		`truncate\s+<n>$`, `(grant|revoke)\s+<n>\s+(to|from)\s+<n>$`, `(call|exec|execute)\s+<n>`,
		`kill\s+(query\s+)?\d+$`,
		`(create|alter)\s+(user|role|login|database|schema)\s+<n>`, `shutdown\b`, `flush\s+\w+$`, `set\s+role\s`)

	upperCase    = regexp.MustCompile(`^[A-Z]+\s+[A-Z]+\b`)
	writesInside = regexp.MustCompile(`(?is)\bas\s+(not\s+)?(materialized\s*)?\(.*\b(delete\s+from|insert\s+into|` +
		`update\s+\S+\s+(\w+\s+)?set|merge\s+into)\b|\bas\s*\(.*\)\s*(delete\s+from|insert\s+into|update\s|merge\s)`)
	selectsInto = regexp.MustCompile(`(?is)^(select|with|from|table)\b.*\binto\s`)
	intoFile    = regexp.MustCompile(`(?i)\binto\s+(outfile|dumpfile)\b`)
	fromTable   = regexp.MustCompile(`(?i)\binto\s+\S+\s+from\s+\S`)
	functions   = regexp.MustCompile(`(?i)^(select|exec|call|with|values)\b.*\b(pg_terminate_backend|pg_cancel_backend|` +
		`pg_read_file|pg_write_file|lo_export|lo_import|dblink\w*|load_extension|xp_\w+|sp_\w+|setval|query_to_xml|` +
		`load_file|sys_exec|sys_eval|writefile)\s*\(`)
	cypher = regexp.MustCompile(`(?is)^((optional\s+)?match\s*\(\w*|unwind\s.*\bas\b|merge\s*\(|call\s*\{).*` +
		`\b(delete|set|create|merge|remove)\b`)
	explained = regexp.MustCompile(`(?is)^explain\s*(\([^)]*\)|(analyze|analyse|verbose)\b|\s)*`)
)

func forms(list ...string) *regexp.Regexp {
	const name = "[\\w.\"`\\[\\]$*-]+"
	return regexp.MustCompile(strings.ReplaceAll("(?i)^("+strings.Join(list, "|")+")", "<n>", name))
}

// maxStatement limits the bytes of a statement that are read.
const maxStatement = 64 << 10

// engines are words of names of tools that say that a query is a statement, and stores are words that say so unless the
// tool searches. searching are the words of tools that search: their queries are words, and not statements.
var (
	engines = contentWords(strings.Fields(`sql postgres postgresql mysql mariadb sqlite mssql oracle bigquery snowflake
		redshift clickhouse duckdb neo neo4j cypher`))
	stores    = contentWords(strings.Fields("db database databases warehouse"))
	searching = contentWords(strings.Fields("search searches searcher find finds finder"))
)

// statement judges an argument with a statement of SQL, Cypher or GraphQL. sql is set if the argument's name says
// that it can only be a statement; then the first word decides. certain is set if the tool's name is that of a
// database; then the short forms count too. search is set if the tool searches; then capitals are not enough.
func statement(key, v string, sql, certain, search bool) (worst demand) {
	v = strings.NewReplacer("\ufeff", "", "\u200b", "").Replace(v)
	if len(v) > maxStatement {
		if sql || certain {
			return demand{level: beliefs.L4, effects: []string{EffectWrite}, blast: beliefs.BlastExternal,
				reversibility: beliefs.Irreversible, why: "the argument " + clip(key) + " is longer than the policy reads"}
		}
		v = v[:maxStatement] // a document, which may be long
	}
	for d := range dialects {
		all := d.statements(v)
		for i, s := range all {
			ended := i+1 < len(all)
			if j := demandOf(s, sql, certain || ended, search); j.level > worst.level {
				worst = j
				worst.why = "the argument " + clip(key) + " has a statement that changes something"
			}
		}
	}
	if worst.level < beliefs.L4 && mutates(v) {
		worst = demand{beliefs.L4, []string{EffectWrite}, beliefs.BlastExternal, beliefs.Irreversible,
			"the argument " + clip(key) + " has a GraphQL mutation"}
	}
	return worst
}

// demandOf judges one statement, in the form in which the method statements returns it.
func demandOf(s string, sql, certain, search bool) demand {
	s = strings.TrimSpace(strings.TrimLeft(explained.ReplaceAllString(s, ""), "( \t\r\n"))
	flat := strings.Join(strings.Fields(s), " ")
	words := strings.FieldsFunc(strings.ToLower(flat), func(r rune) bool { return r == ' ' || r == '(' || r == ',' })
	if len(words) == 0 {
		return demand{}
	}
	destroys := demand{level: beliefs.L4, effects: []string{EffectWrite, EffectDelete}, blast: beliefs.BlastProject,
		reversibility: beliefs.Irreversible}
	adds := demand{level: beliefs.L3, effects: []string{EffectWrite}, blast: beliefs.BlastProject,
		reversibility: beliefs.Compensable}
	runs := demand{level: beliefs.L4, effects: []string{EffectExec}, blast: beliefs.BlastExternal,
		reversibility: beliefs.Irreversible}
	rights := demand{level: beliefs.L4, effects: []string{EffectSecret, EffectWrite}, blast: beliefs.BlastExternal,
		reversibility: beliefs.Compensable}
	first := words[0]
	switch {
	case functions.MatchString(flat):
		return runs
	case selectsInto.MatchString(flat) && intoFile.MatchString(flat):
		return runs
	case selectsInto.MatchString(flat) && (sql || fromTable.MatchString(flat)):
		return adds
	case cypher.MatchString(flat) && strings.ContainsAny(flat, "({"):
		return destroys
	case first == "with" && writesInside.MatchString(flat):
		return destroys
	case !sql && !strict.MatchString(flat) &&
		!((certain || !search && upperCase.MatchString(flat)) && short.MatchString(flat)):
		return demand{}
	case ofSession(words, flat):
		return demand{}
	}
	for _, w := range words[1:min(len(words), 6)] {
		if first != "create" && first != "alter" && first != "drop" {
			break
		}
		if rightsObjects[w] {
			return rights
		}
		if codeObjects[w] {
			return runs
		}
	}
	switch {
	case statementGrants[first]:
		return rights
	case statementRuns[first]:
		return runs
	case statementDestroys[first], first == "alter" && strings.Contains(strings.ToLower(flat), " drop "),
		first == "update" && !strings.Contains(strings.ToLower(flat), "where"):
		return destroys
	case statementAdds[first], statementChanges[first]:
		return adds
	}
	return demand{}
}

// ofSession reports whether a statement only begins a transaction, or reads or sets something of its own connection.
func ofSession(words []string, flat string) bool {
	second := ""
	if len(words) > 1 {
		second = words[1]
	}
	switch words[0] {
	case "begin":
		return slices.Contains([]string{"", "transaction", "work", "read", "isolation", "deferred", "immediate"}, second)
	case "set":
		return second == "search_path" || second == "statement_timeout" || second == "transaction"
	case "pragma":
		return !strings.Contains(flat, "=")
	}
	return false
}

// mutates reports whether a GraphQL document has a mutation.
func mutates(v string) bool {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '#':
			for i+1 < len(v) && v[i] != '\r' && v[i] != '\n' {
				i++
			}
		case strings.HasPrefix(v[i:], `"""`):
			n := strings.Index(v[i+3:], `"""`)
			if n < 0 {
				return false
			}
			i += 3 + n + 2
		case c == '"':
			for i++; i < len(v) && v[i] != '"' && v[i] != '\n'; i++ {
				if v[i] == '\\' {
					i++
				}
			}
		case c == '{':
			depth++
		case c == '}':
			depth = max(depth-1, 0)
		case depth == 0 && nameByte(c):
			if mutation.MatchString(v[i:]) && strings.Contains(v, "{") {
				return true
			}
			for i+1 < len(v) && nameByte(v[i+1]) {
				i++
			}
		}
	}
	return false
}

// mutation matches the beginning of a mutation. A comment may follow its first words.
var mutation = regexp.MustCompile(`^mutation(\s*$|\s*[({@,#]|\s+\w+\s*($|[({@,#]))`)

func nameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// dialect is a way to read string literals and comments, as a set of the following bits. The policy does not know which
// database reads a statement, so it reads it in each way.
type dialect int

const (
	// backslash: a backslash in a literal escapes, # begins a comment, and -- begins one only before a space. Without
	// the bit, $a$ begins a literal.
	backslash dialect = 1 << iota
	nested            // comments nest
	versioned         // the text of a comment that begins with /*! is run
	brackets          // [a] is a quoted name
	dialects          // the number of dialects
)

func (d dialect) has(bit dialect) bool { return d&bit != 0 }

// statements divides v at its semicolons. It replaces each string literal by two quotes and each comment by a space.
func (d dialect) statements(v string) []string {
	v = strings.ReplaceAll(v, "\x00", " ")
	var all []string
	var b strings.Builder
	for i := 0; i < len(v); {
		rest := v[i:]
		switch c := v[i]; {
		case c == ';':
			all = append(all, b.String())
			b.Reset()
			i++
		case c == '\'' || c == '"' || c == '`':
			escape := d.has(backslash) && c != '`' || c == '\'' && i > 0 && (v[i-1] == 'e' || v[i-1] == 'E') &&
				(i == 1 || !nameByte(v[i-2]))
			n := quoted(rest, escape)
			if c == '\'' {
				b.WriteString("''")
			} else {
				b.WriteString("x")
			}
			i += n
		case c == '[' && d.has(brackets):
			n := strings.IndexByte(rest, ']')
			if n < 0 {
				n = len(rest) - 1
			}
			b.WriteByte('x')
			i += n + 1
		case c == '$' && !d.has(backslash) && dollar.MatchString(rest) && (i == 0 || !nameByte(v[i-1])):
			tag := dollar.FindString(rest)
			n := strings.Index(rest[len(tag):], tag)
			if n < 0 {
				n = len(rest) - 2*len(tag)
			}
			b.WriteString("''")
			i = min(i+n+2*len(tag), len(v))
		case strings.HasPrefix(rest, "--") && (!d.has(backslash) || len(rest) == 2 || rest[2] <= ' '),
			d.has(backslash) && c == '#':
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			b.WriteByte(' ')
			i += n
		case d.has(versioned) && strings.HasPrefix(rest, "/*!"):
			b.WriteByte(' ')
			i += 3
			for i < len(v) && v[i] >= '0' && v[i] <= '9' {
				i++
			}
		case strings.HasPrefix(rest, "/*"):
			b.WriteByte(' ')
			i += comment(rest, d.has(nested))
		case strings.HasPrefix(rest, "*/"):
			b.WriteByte(' ')
			i += 2
		default:
			b.WriteByte(c)
			i++
		}
	}
	return append(all, b.String())
}

var dollar = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z_0-9]*)?\$`)

// quoted returns the length of the literal at the beginning of s. Two quotes in a row are one character of the
// literal.
func quoted(s string, escape bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case escape && s[i] == '\\':
			i++
		case s[i] == s[0]:
			if i+1 == len(s) || s[i+1] != s[0] {
				return i + 1
			}
			i++
		}
	}
	return len(s)
}

// comment returns the length of the comment at the beginning of s.
func comment(s string, nested bool) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "/*") && (depth == 0 || nested):
			depth++
			i++
		case strings.HasPrefix(s[i:], "*/"):
			if depth--; depth == 0 {
				return i + 2
			}
			i++
		}
	}
	return len(s)
}
