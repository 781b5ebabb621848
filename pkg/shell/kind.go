package shell

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Writes reports whether a command line may write files, or run programs that are not listed as programs that only look
// at files. Unlike Kind, it permits an expansion in the name of a file, and a word that names credentials.
func Writes(line string) bool {
	all, plain, ok := lex(line)
	return !ok || !plain || !onlyLook(all)
}

// onlyLook reports whether all programs of a line only look at files.
func onlyLook(all []simple) bool {
	programs, ok := plainWords(all)
	return ok && !slices.ContainsFunc(programs, func(words []word) bool { return !looks(words) })
}

// secrets are parts of words that name credentials.
var secrets = []string{".ssh", ".aws", ".gnupg", ".netrc", ".npmrc", ".pypirc", ".env", ".kube/", ".docker/",
	".azure/", ".pgpass", ".my.cnf", ".s3cfg", ".vault-token", ".htpasswd", "id_rsa", "id_ed25519", "id_ecdsa",
	"id_dsa",
	".config/gcloud", "sh_history", "sql_history", "credential", "secret", "/etc/shadow", "/etc/gshadow"}

// secret reports whether a word names credentials or the state of a process, such as its environment.
func secret(w string) bool {
	w = strings.ToLower(w)
	if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(w, s) }) {
		return true
	}
	if keyWord(w) {
		return true
	}
	parts := slices.DeleteFunc(strings.Split(w, "/"), func(p string) bool { return p == "" || p == "." })
	for i, p := range parts {
		if p == "environ" {
			return true
		}
		if p != "proc" {
			continue
		}
		next := ""
		if i+1 < len(parts) {
			next = parts[i+1]
		}
		root := i == 0 && w[0] == '/' || i == 1 && w[0] == '-' || i > 0 && parts[i-1] == ".." // as in -f/proc and ../proc
		if root && !harmlessProc[next] || next == "self" || next == "thread-self" ||
			next != "" && strings.Trim(next, "0123456789") == "" {
			return true
		}
	}
	return false
}

// keyWord reports whether a word, in lower case, is the path of a file with keys.
func keyWord(w string) bool {
	return keyPath.MatchString(w) && keyFile(w[strings.LastIndexByte(w, '/')+1:]) && !testData(w)
}

// testData reports whether a word is the path of a file for tests, in a folder testdata of the folder in which the line
// starts.
func testData(w string) bool {
	return own(w) && slices.Contains(strings.Split(path.Dir(w), "/"), "testdata")
}

// keyPath matches a word that is a path with a name, and not an expression such as .a.key of jq.
var keyPath = regexp.MustCompile(`^\w[\w.-]*$|/[\w.+@~-]+$`)

var harmlessProc = set("cpuinfo meminfo loadavg uptime version stat filesystems mounts")

// looks reports whether a program with its arguments only looks at files.
func looks(words []word) bool {
	name, args := base(words[0].text), words[1:]
	if words[0].wild {
		return false
	}
	if asksVersion(name, args) {
		return true
	}
	switch name {
	case "curl":
		return asksItself(args)
	case "ps":
		return listsProcesses(args)
	case "xargs":
		for len(args) > 0 && (args[0].text == "-0" || args[0].text == "-r") {
			args = args[1:]
		}
		return len(args) > 0 && counters[args[0].text] && !slices.ContainsFunc(args, func(w word) bool {
			return w.wild || takesList(args[0].text, w)
		})
	case "wc", "du", "strings":
		return !slices.ContainsFunc(args, func(w word) bool { return takesList(name, w) })
	case "git":
		args, outside := gitArgs(args)
		if len(args) == 0 || args[0].wild {
			return false
		}
		o, rest := subcommand(gitLookers, args)
		if o == nil && !outside {
			o, rest = subcommand(subLookers[name], args)
		}
		return o != nil && o.permit(rest) && !slices.ContainsFunc(args, func(w word) bool {
			return signature.MatchString(w.text)
		})
	}
	if readsHub(words) {
		return remoteLookers[args[0].text+"/"+args[1].text].permit(args[2:])
	}
	if o, rest := subcommand(subLookers[name], args); o != nil {
		return o.permit(rest)
	}
	o, ok := lookers[name]
	return ok && o.permit(args)
}

// takesList reports whether a word lets a program read the names of files from a file. The program then prints the text
// of this file, in its messages about files that are missing.
func takesList(program string, w word) bool {
	return (program == "wc" || program == "du") && strings.HasPrefix(w.text, "--f") ||
		program == "strings" && strings.HasPrefix(w.text, "@")
}

// remote reports whether a program prints text from a server.
func remote(words []word) bool {
	name, args := base(words[0].text), words[1:]
	if name == "git" {
		args, _ = gitArgs(args)
	}
	return name == "curl" || printsRemote(name, args) || readsHub(words)
}

// gitArgs returns the subcommand of git with its arguments. It drops the options before the subcommand that may be in a
// line of the kind Look. outside is set if one of them lets git work outside of the folder in which the line starts.
func gitArgs(args []word) (rest []word, outside bool) {
	for len(args) > 1 && !args[0].wild {
		switch {
		case args[0].text == "--no-pager":
			args = args[1:]
		case args[0].text == "-C" && !args[1].wild && !started(args[1].text):
			outside = outside || !own(args[1].text)
			args = args[2:]
		default:
			return args, outside
		}
	}
	return args, outside
}

// readsHub reports whether gh only prints text from a server.
func readsHub(words []word) bool {
	for i, w := range words { // a search may have an @ and a colon: author:@me
		search := i > 0 && hubSearch[words[i-1].text] || strings.HasPrefix(w.text, "--search=")
		if !search && foreignHub(w.text) {
			return false
		}
	}
	return base(words[0].text) == "gh" && len(words) > 2 && !words[1].wild && !words[2].wild &&
		remoteLookers[words[1].text+"/"+words[2].text] != nil
}

var hubSearch = set("--search -S")

// otherHost matches a repository with its host, as in -R host.example/owner/repo.
var otherHost = regexp.MustCompile(`^(-R|--repo=)?=?[\w-]+(\.[\w-]+)+(:\d+)?/[^/]+/[^/]`)

// foreignHub reports whether an argument of gh names another host than github.com.
func foreignHub(w string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(w, "-R"), "--repo="), "=")
	if strings.HasPrefix(rest, "github.com/") || strings.HasPrefix(rest, "https://github.com/") {
		return strings.Contains(rest, "@")
	}
	return strings.Contains(w, "://") || strings.Contains(w, "@") && strings.Contains(w, ":") || otherHost.MatchString(w)
}

// scriptOptions are options with which many scripts can write any file, or read any file as settings.
var scriptOptions = set("--output --config --exec -exec")

// signature matches the output formats of git that verify a signature. For such a format, git runs a program that the
// settings of the repository name.
var signature = regexp.MustCompile(`%[-+ ]?G`)

// base returns the name of a program without its folder, if the folder is one of the system. A program in another
// folder keeps its whole path.
func base(program string) string {
	for _, dir := range []string{"/usr/bin/", "/bin/"} {
		if rest, ok := strings.CutPrefix(program, dir); ok && !strings.Contains(rest, "/") {
			return rest
		}
	}
	return program
}

// builds reports whether a program builds, tests or stages in the folder, or writes files there.
func builds(words []word) bool {
	name, args := words[0].text, words[1:]
	if name == "npx" && len(args) > 1 && args[0].text == "--no-install" {
		args = args[1:]
	}
	if name == "npx" && len(args) > 0 && npx[args[0].text] {
		name, args = args[0].text, args[1:]
	}
	if strings.HasPrefix(name, "python") && interpreters[name] != "" && len(args) > 1 && args[0].text == "-m" {
		o := cmp.Or(modules[args[1].text], moreModules[args[1].text])
		return o != nil && o.permit(args[2:])
	}
	if name == "node" && len(args) > 0 && args[0].text == "--test" {
		return !slices.ContainsFunc(args[1:], func(w word) bool { return !ownFile(w.text) })
	}
	if ending := interpreters[name]; ending != "" {
		return len(args) > 0 && strings.HasSuffix(args[0].text, ending) && own(args[0].text) &&
			!slices.ContainsFunc(args, func(w word) bool {
				name, _, _ := strings.Cut(w.text, "=")
				return scriptOptions[name]
			})
	}
	if name == "go" && len(args) > 0 && args[0].text == "run" {
		return runsOwn(args[1:])
	}
	if (name == "tox" || name == "nox") && !ordinary(args) {
		return false
	}
	if name == "mvn" || name == "./mvnw" {
		var ok bool
		if args, ok = withoutProperties(args); !ok {
			return false
		}
	}
	if o, rest := subcommand(subBuilders[name], args); o != nil {
		if name == "cargo" && args[0].text == "run" && !ordinary(rest) {
			return false
		}
		if end := slices.IndexFunc(rest, func(w word) bool { return w.text == "--" }); name == "cargo" && end >= 0 {
			return args[0].text == "run" && o.permit(rest[:end])
		}
		return o.permit(rest)
	}
	if by := buildersBy[name]; by != nil {
		if len(args) == 0 {
			return false
		}
		if end := slices.IndexFunc(args, func(w word) bool { return w.text == "--" }); packages[name] && end > 0 {
			if !toScript.permit(args[end+1:]) {
				return false
			}
			args = args[:end]
		}
		o, ok := by[args[0].text]
		return ok && o.permit(args[1:])
	}
	o := cmp.Or(builders[name], moreBuilders[name])
	return o != nil && o.permit(args)
}

// runs reports whether a program that the function builds permits runs code of the folder, which may read and write any
// file that the arguments name. A line with such a program counts as Build only in the folder in which the line starts.
func runs(words []word) bool {
	name, args := words[0].text, words[1:]
	switch {
	case moreBuilders[name] != nil:
		return true
	case len(args) == 0:
		return false
	case strings.HasPrefix(name, "python") && len(args) > 1 && args[0].text == "-m":
		return moreModules[args[1].text] != nil
	case name == "go" && args[0].text == "run", name == "node" && args[0].text == "--test":
		return true
	}
	o, _ := subcommand(subBuilders[name], args)
	return o != nil
}

// Started reports whether a path names a file that programs run, or read as settings, although no command names it. A
// hook of git is such a file.
func Started(path string) bool { return started(strings.ReplaceAll(path, `\`, "/")) }

// started does the same as Started, for a word of a command line.
func started(w string) bool {
	parts := strings.Split(strings.ToLower(w), "/")
	for i, p := range parts {
		if p = strings.TrimLeft(p, "-="); startedNames[p] && (i+1 == len(parts) || !stored[p+"/"+parts[i+1]] ||
			slices.Contains(parts[i+1:], "..")) {
			return true
		}
	}
	return false
}

// stored are folders in which an agent stores its own notes and its copies of the project. Programs do not run these
// files.
var stored = set(".claude/projects .claude/plans .claude/worktrees")

var startedNames = set(`.git .github .gitlab .gitlab-ci.yml .circleci .husky .vscode .idea .claude .codex .cursor
	.gemini .mcp.json .gitconfig .gitmodules .gitattributes .bashrc .bash_profile .bash_login .bash_logout
	.bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .config .local
	.pre-commit-config.yaml .devcontainer .envrc .direnv`)

// own reports whether a word is a path inside the folder in which the line starts.
func own(w string) bool {
	return w != "" && !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "/") && !strings.HasPrefix(w, "~") &&
		!strings.Contains(w, "..") && !strings.Contains(w, ":")
}

// ownFile reports whether a word is the path of a file in the folder that programs neither run nor read as settings
// without being told to. Some programs read further arguments from a file after an @.
func ownFile(w string) bool { return own(w) && !started(w) && !strings.HasPrefix(w, "@") }

// noList reports whether an operand is not of the form @FILE, with which a program reads further arguments from FILE.
func noList(w string) bool { return !strings.HasPrefix(w, "@") }

// options are the arguments that a program may have in a line of the kind Look or Build.
type options struct {
	all bool // every argument
	// short are the letters of short options. A colon after a letter means that the option has a value. A semicolon
	// means that the option may have a value, in the same word.
	short string
	// long has the names of long options. If short is empty, the program is one whose long names have a single dash, as
	// those of go. Then one dash and two dashes are permitted.
	long    map[string]bool
	numbers bool            // a number is permitted as an option, as in head -5
	own     map[string]bool // long options whose value is the path of a file in the folder
	values  map[string]bool // long options with a value, which may be the next word
	// long options, and letters of short options, with a value that the function permits
	checked map[string]func(s string) bool
	max     int                 // maximum number of operands; 0 sets no maximum
	operand func(s string) bool // whether an operand is permitted; nil permits all
	// whether the first operand, a script, is permitted; the function operand judges the other operands
	script func(s string) bool
	first  map[string]bool // permitted values of the first operand; nil permits all
	some   bool            // at least one operand is required
	need   []string        // at least one of these words is required as an argument
	// an operand may be a pattern of file names. A pattern begins with a letter or with ./, so it matches no name that
	// is an option. The function operand judges the pattern as a path.
	patterns bool
}

// permit reports whether the options permit the arguments.
func (o *options) permit(args []word) bool {
	if o.all {
		return true
	}
	var operands []string
	needed, rest := len(o.need) == 0, false // rest: a -- was read, so a later word with a dash is an operand
	for i := 0; i < len(args); i++ {
		w := args[i]
		s := w.text
		if s == "" {
			operands = append(operands, s)
			continue
		}
		needed = needed || !rest && slices.Contains(o.need, s)
		if rest && len(s) > 1 && s[0] == '-' {
			operands = append(operands, s)
		}
		if w.wild && (strings.Contains(s, "$") || strings.IndexByte("*?[{", s[0]) >= 0 || o.max > 0 ||
			o.patterns && s[0] == '-' || o.operand != nil && !o.patterns || o.first != nil ||
			o.script != nil && len(operands) == 0) {
			return false // the shell may expand the word to an option, or to several operands
		}
		switch {
		case s == "--":
			rest = true
		case s == "-" || s[0] != '-':
			operands = append(operands, s)
		case o.numbers && strings.Trim(s[1:], "0123456789") == "":
		case strings.HasPrefix(s, "--") || o.short == "":
			name, value, has := strings.Cut(strings.TrimLeft(s, "-"), "=")
			check := o.checked[name]
			if o.own[name] {
				check = ownFile
			}
			if check != nil {
				if !has {
					if i++; i == len(args) || args[i].wild {
						return false
					}
					value = args[i].text
				}
				if !permits(check, value) {
					return false
				}
				continue
			}
			if o.values[name] {
				if !has {
					i++
				}
				if i == len(args) || args[i].wild {
					return false
				}
			} else if !o.long[name] {
				return false
			}
		default:
			ok, next := o.cluster(s[1:])
			if !ok {
				return false
			}
			option, value := o.valued(s[1:])
			if next && i+1 < len(args) && !strings.HasPrefix(args[i+1].text, "-") {
				if i++; args[i].wild { // a shell may expand the option's value to several words
					return false
				}
				value = args[i].text
			}
			if check := o.checked[option]; check != nil && !permits(check, value) {
				return false
			}
		}
	}
	if o.max > 0 && len(operands) > o.max || o.some && len(operands) == 0 || !needed {
		return false
	}
	if o.first != nil && len(operands) > 0 && !o.first[operands[0]] {
		return false
	}
	if o.script != nil {
		if len(operands) == 0 || !o.script(operands[0]) {
			return false
		}
		operands = operands[1:]
	}
	return o.operand == nil || !slices.ContainsFunc(operands, func(s string) bool { return !o.operand(s) })
}

// permits reports whether a check permits the value of an option. Some programs read -s=x as -s x, and others as the
// value =x.
func permits(check func(string) bool, value string) bool {
	return check(value) && check(strings.TrimPrefix(value, "="))
}

// cluster reads the short options in one word: the letters "xzf" of "-xzf". ok reports whether all of them are
// permitted. next reports whether the word that follows is the value of the last option.
func (o *options) cluster(letters string) (ok, next bool) {
	for i := range len(letters) {
		at := strings.IndexByte(o.short, letters[i])
		if at < 0 || letters[i] == ':' || letters[i] == ';' {
			return false, false
		}
		if rest := o.short[at+1:]; strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, ";") {
			return true, rest[0] == ':' && i+1 == len(letters)
		}
	}
	return true, false
}

// valued returns the short option in a word that has a value, and the part of the value in the same word.
func (o *options) valued(letters string) (option, value string) {
	for i := range len(letters) {
		if at := strings.IndexByte(o.short, letters[i]); at >= 0 && strings.HasPrefix(o.short[at+1:], ":") {
			return letters[i : i+1], letters[i+1:]
		}
	}
	return "", ""
}

func set(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}
