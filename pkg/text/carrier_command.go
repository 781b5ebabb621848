package text

import "strings"

// verbs are shell commands. The value lists words of which one must follow the command, because some commands are also
// English words or names. "-" in the list matches an option, a path, a URL or a variable.
var verbs = map[string]string{
	"curl": "-", "wget": "-", "fetch": "-", "nc": "-", "ncat": "-", "socat": "-", "ssh": "-", "scp": "-", "sftp": "-",
	"rsync": "-",
	"bash":  "-", "sh": "-", "zsh": "-", "python": "-", "python3": "-", "perl": "-", "ruby": "-", "node": "-", "php": "-",
	"powershell": "-", "pwsh": "-", "cmd": "-", "eval": "-", "exec": "-", "source": "-",
	"rm": "-", "mv": "-", "cp": "-", "dd": "-", "cat": "-", "tee": "-", "chmod": "-", "chown": "-", "mkfs": "-",
	"shred": "-",
	"find":  "-", "grep": "-", "sed": "-", "tar": "-", "echo": "-", "base64": "-", "openssl": "-", "dig": "-",
	"nslookup": "-",
	"kill":     "-", "pkill": "-", "crontab": "-", "nohup": "-", "iptables": "-", "useradd": "-", "passwd": "-",
	"sudo": "- apt apt-get rm cat bash sh chmod chown systemctl useradd curl wget tee su dd",
	"git":  "- push pull clone commit checkout reset remote config add fetch merge",
	"pip":  "- install uninstall download", "pip3": "- install uninstall download", "npm": "- install i run publish exec",
	"npx": "- -y", "yarn": "- add install", "brew": "- install", "apt": "- install remove",
	"cargo":  "- install add run publish",
	"docker": "- run exec build pull push rm cp", "kubectl": "- apply delete exec get create edit scale",
	"systemctl": "- start stop enable disable restart",
	"aws":       "- s3 iam ec2 sts lambda secretsmanager", "gcloud": "- auth compute iam storage",
	"az":   "- login storage vm",
	"gh":   "- repo pr issue secret api gist",
	"psql": "-", "mysql": "-", "sqlite3": "-", "mongo": "-", "terraform": "- apply destroy init",
	"helm": "- install upgrade",
}

// verbShapes has, for each first letter, the lengths of the verbs as a set of bits. It is a fast check before the
// lookup in the map verbs.
var verbShapes = func() (t [256]uint16) {
	for v := range verbs {
		t[v[0]] |= 1 << len(v)
	}
	return t
}()

func maybeVerb(first byte, length int) bool {
	return length < 16 && verbShapes[first]>>length&1 == 1
}

const maxCommand = 200 // bytes

// command reads a shell command whose verb is s[start:end]. If there is a command, it returns the end of the verb, so
// that the scanner searches the arguments for carriers too. Otherwise it returns 0.
func (sc *scanner) command(start, end int) int {
	follows, ok := verbs[sc.s[start:end]]
	if !ok || end == len(sc.s) || sc.s[end] != ' ' {
		return 0
	}
	line := sc.s[start:min(len(sc.s), start+maxCommand)]
	if i := strings.IndexAny(line, "\n\r`"); i >= 0 {
		line = line[:i]
	}
	var quoted byte
	if start > 0 && (sc.s[start-1] == '"' || sc.s[start-1] == '\'') {
		quoted = sc.s[start-1]
	}
	line = untilProse(line, quoted)
	words := strings.Fields(line)
	if len(words) < 2 || !argument(words[1], follows) {
		return 0
	}
	sc.keepAt(Command, strings.Join(words, " "), start, start+len(line))
	return end
}

func argument(word, follows string) bool {
	if strings.IndexByte("-/~$.<", word[0]) >= 0 && len(word) > 1 || strings.ContainsAny(word, "/$=@|") ||
		strings.Contains(word, "://") {
		return true
	}
	if i := strings.LastIndexByte(word, '.'); i > 0 && fileEndings[word[i+1:]] {
		return true
	}
	for f := range strings.FieldsSeq(follows) {
		if f == word {
			return true
		}
	}
	return false
}

// proseAfter are words after which the text is no longer a command but the rest of an English sentence.
var proseAfter = set("and then to in for with the after before so it this that which when which will as " +
	"because please or")

// untilProse cuts a command at the place where the surrounding sentence continues. This is the closing quote if the
// command is quoted, the end of a sentence, or a word outside quotes that is not an argument of a command.
func untilProse(line string, quoted byte) string {
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\\':
			if i+1 < len(line) && (line[i+1] == quoted || line[i+1] == 'n') {
				return line[:i]
			}
			i++
		case c == '"' || c == '\'':
			if c == quoted {
				return line[:i]
			}
			quote = c
		case c == ' ':
			next, _, _ := strings.Cut(line[i+1:], " ")
			if proseAfter[next] {
				return line[:i]
			}
			if prev := line[i-1]; prev == '.' || prev == ',' || prev == '!' {
				return line[:i-1]
			}
		}
	}
	return strings.TrimRight(line, ".,;:!?)")
}
