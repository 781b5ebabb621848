package policy

import (
	"fmt"
	"slices"
	"strings"
)

// The words of names of settings whose values may weaken security.
var (
	// protects are settings that must stay on. An element of two words stands for both words, one after the other.
	protects = strings.Split(`mfa,totp,2 fa,two factor,two step,second factor,multi factor,firewall,encryption,`+
		`antivirus,security,protection,protected,sandbox,audit,auditing,verification,login required,require login,`+
		`require approval,require review,signed commits,tls verify,verify tls,verify ssl,ssl verify`, ",")
	// plain are the ones among protects that are also words of titles and notes. If the value of such a setting is a
	// text, only the values in switched turn it off.
	plain    = contentWords(strings.Fields("security audit verification protection"))
	switched = contentWords(strings.Fields("false off disabled disable"))
	// opens are settings that say who may see or use something. everybody are their values that open it to everybody.
	opens     = strings.Split("visibility,access,privacy,audience,sharing,acl,shared with,exposure", ",")
	everybody = contentWords(strings.Fields(`public everyone everybody anyone world all anonymous unrestricted internet
		public-read public-read-write anyone_with_link anyonewithlink allusers`))
	// public are settings that open something if they are on.
	public = strings.Split("public,anonymous,world readable,guest access,link sharing", ",")
	// forwards are settings that send a copy of arriving messages to somebody else.
	forwards = strings.Split("forward,forwarding,forwards,autoforward,redirection,redirect to,redirect mail", ",")
	// mayForward are settings that do so only if their value has a mail address: {"copy_to": "backup/a"} does not.
	mayForward = []string{"redirect", "copy to"}
	// rights are settings that give somebody rights, whatever their value is, except for the values in reading.
	rights = strings.Split(`collaborator,collaborators,permission,permissions,privilege,privileges,ssh key,ssh keys,`+
		`deploy key,public key,authorized key,authorized keys,signing key,sudoer,sudoers`, ",")
	// roles are settings that give somebody a role. powerful are the roles that weaken security.
	roles    = strings.Split("role,roles", ",")
	powerful = contentWords(strings.Fields(`admin administrator owner root superuser superadmin maintainer maintain write
		writer editor sysadmin`))
	// reading are rights that do not let anybody change something.
	reading = contentWords(strings.Fields("r read reader readonly read-only read_only view viewer"))
	// off are values that switch a setting off. A setting with one of the negations in its name is off if its value is
	// on.
	off       = contentWords(strings.Fields("false off no none disabled disable 0 never optional inactive removed"))
	negations = contentWords(strings.Fields("disable disabled skip bypass off no without ignore"))
)

// weakens says how a setting weakens security. It returns "" if it does not. name has the words of the setting's
// name, and parent those of the object that contains the setting.
func weakens(parent, name []string, v any) string {
	value := ""
	switch v := v.(type) {
	case bool, float64:
		value = fmt.Sprint(v)
	case string:
		value = strings.ToLower(strings.TrimSpace(v))
	default:
		return ""
	}
	switch last := ""; {
	case len(name) > 0:
		last = name[len(name)-1]
		if valueWords[last] || settingWords[last] {
			name = slices.Concat(parent, name)
		}
	default:
		name = parent
	}
	on := value == "true" || value == "on" || value == "yes" || value == "1" || value == "enabled"
	first, _, _ := strings.Cut(value, " ")
	none := value == "" || off[value] || off[first] && !isPowerful(value)
	negated := slices.ContainsFunc(name, func(w string) bool { return negations[w] })
	switch {
	case has(name, protects) && (!negated && (switched[value] || off[value] && !isText(v, name)) || negated && on):
		return "switches off a protection"
	case has(name, opens) && everybody[value], has(name, public) && on,
		len(name) > 0 && name[len(name)-1] == "private" && off[value]:
		return "opens something to everybody"
	case none:
		return ""
	case has(name, forwards), has(name, mayForward) && strings.Contains(value, "@"):
		return "forwards what arrives"
	case has(name, rights) && strings.Trim(value, "0123456789.") != "" && value != "true" && !reading[value]:
		return "gives rights"
	case has(name, roles) && isPowerful(value):
		return "gives a powerful role"
	}
	return ""
}

// isText reports whether a value is a text, and the setting's name has no word but those of plain and of settingWords.
func isText(v any, name []string) bool {
	_, text := v.(string)
	return text && !slices.ContainsFunc(name, func(w string) bool {
		return !plain[w] && !settingWords[w] && !valueWords[w]
	})
}

// isPowerful reports whether a value is a powerful role, also with a prefix (org_admin) or in a list. A title of
// several words, such as "managing editor", is none.
func isPowerful(value string) bool {
	for role := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(",;|", r) }) {
		if role = strings.TrimSpace(role); !strings.Contains(role, " ") &&
			slices.ContainsFunc(nameWords(role), func(w string) bool { return powerful[w] }) {
			return true
		}
	}
	return false
}

// has reports whether the words of a name contain one of the names of a list.
func has(words, list []string) bool {
	joined := " " + strings.Join(words, " ") + " "
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(joined, " "+s+" ") })
}
