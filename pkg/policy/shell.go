package policy

import (
	"slices"
	"strings"
)

// The kinds of command lines, as in the variable shell of conditions. A line is look or build only
// if all its programs are in the lists below and the shell substitutes, expands and redirects
// nothing in it.
const (
	shellNone  = ""      // no argument named command
	shellLook  = "look"  // programs that only read files
	shellBuild = "build" // also programs that build, test and stage in the folder
	shellOther = "other"
)

const maxShell = 4 << 10 // maximum bytes of a command line; longer ones are other

var (
	lookers = wordSet(`cd pwd ls tree cat head tail wc stat file du df which date echo grep egrep rg sort uniq cut tr nl
		basename dirname realpath diff cmp jq true`)
	builders = wordSet(`mkdir touch cp mv make gofmt staticcheck tsc eslint prettier pytest ruff mypy black`)
	// Programs of which only these subcommands are included.
	lookersBy = map[string]map[string]bool{
		"git": wordSet("status log diff show blame ls-files rev-parse describe shortlog"),
	}
	buildersBy = map[string]map[string]bool{
		"git":   wordSet("add commit checkout switch branch stash restore mv"),
		"go":    wordSet("build test vet fmt list generate"),
		"cargo": wordSet("build test check fmt clippy"),
		"npm":   wordSet("test run"),
		"npx":   wordSet("tsc eslint prettier vitest jest"),
	}
	// interpreters are programs that run scripts with the given ending. Test runners run arbitrary
	// code too, so these are not worse.
	interpreters = map[string]string{"python": ".py", "python3": ".py", "node": ".js"}
	// sensitive are parts of words that name credentials, or options that run or write something
	// else.
	sensitive = []string{".ssh", ".aws", ".gnupg", ".netrc", ".npmrc", ".pypirc", ".env", "id_rsa", "id_ed25519",
		"credential", "secret",
		"/etc/shadow", "--output", "--ext-diff", "--textconv", "--exec", "-exec", "-toolexec", "--upload-pack",
		"--receive-pack", "--config", "--pre"}
)

func wordSet(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// shellKind returns the kind of the command line in a call's arguments.
func shellKind(args any) string {
	m, _ := args.(map[string]any)
	v, ok := m["command"]
	if !ok {
		return shellNone
	}
	line, ok := v.(string)
	if !ok || len(line) > maxShell {
		return shellOther
	}
	programs, ok := splitCommand(line)
	if !ok || len(programs) == 0 {
		return shellOther
	}
	kind := shellLook
	for _, words := range programs {
		sub := ""
		if len(words) > 1 {
			sub = words[1]
		}
		switch p := words[0]; {
		case slices.ContainsFunc(words, func(w string) bool {
			return slices.ContainsFunc(sensitive, func(s string) bool { return strings.Contains(strings.ToLower(w), s) })
		}):
			return shellOther
		case lookers[p], lookersBy[p][sub]:
		case builders[p], buildersBy[p][sub], interpreters[p] != "" && ownScript(sub, interpreters[p]):
			kind = shellBuild
		default:
			return shellOther
		}
	}
	return kind
}

// ownScript reports whether a word is the path of a script in the folder.
func ownScript(w, ending string) bool {
	return strings.HasSuffix(w, ending) && !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "/") &&
		!strings.HasPrefix(w, "~") && !strings.Contains(w, "..") && !strings.Contains(w, ":")
}

// splitCommand splits a command line into its programs, at pipes and separators. ok is false if a
// shell would expand, substitute, redirect or run something in the background, except for 2>&1 and
// discarded output.
func splitCommand(line string) (programs [][]string, ok bool) {
	var words []string
	flush := func() bool {
		if len(words) == 0 {
			return false
		}
		programs, words = append(programs, words), nil
		return true
	}
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case strings.HasPrefix(line[i:], "2>&1"):
			i += len("2>&1")
		case strings.HasPrefix(line[i:], ">/dev/null"), strings.HasPrefix(line[i:], "2>/dev/null"):
			i += strings.Index(line[i:], "/dev/null") + len("/dev/null")
			if i < len(line) && !strings.ContainsRune(" \t;|&", rune(line[i])) {
				return nil, false
			}
		case strings.HasPrefix(line[i:], "&&"), strings.HasPrefix(line[i:], "||"):
			if i += 2; !flush() {
				return nil, false
			}
		case c == '|' || c == ';' || c == '\n':
			if i++; !flush() {
				return nil, false
			}
		default:
			w, n, fine := shellWord(line[i:])
			if !fine {
				return nil, false
			}
			words, i = append(words, w), i+n
		}
	}
	return programs, flush() || len(programs) > 0
}

// shellWord reads a word, which may be quoted, and returns it and its length in s in bytes.
func shellWord(s string) (word string, n int, ok bool) {
	var b strings.Builder
	for n < len(s) {
		c := s[n]
		switch {
		case strings.IndexByte(" \t\n;|", c) >= 0, strings.HasPrefix(s[n:], "&&"):
			return b.String(), n, b.Len() > 0
		case c == '\'' || c == '"':
			end := strings.IndexByte(s[n+1:], c)
			if end < 0 || c == '"' && strings.ContainsAny(s[n+1:n+1+end], "$`\\") {
				return "", 0, false
			}
			b.WriteString(s[n+1 : n+1+end])
			n += end + 2
		case strings.IndexByte("&<>$`(){}\\#*?[]!~=", c) >= 0 &&
			!(c == '=' && b.Len() > 0 && b.String()[0] == '-'), c < ' ', c >= 0x7f:
			return "", 0, false
		default:
			b.WriteByte(c)
			n++
		}
	}
	return b.String(), n, b.Len() > 0
}
