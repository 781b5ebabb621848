package shell

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// LocalPath returns the path that a path or a file URL names, with / as separator. It returns "" for a URL of
// another scheme, unless the URL has the element "..": a program that reads such a URL as a path may read a file
// elsewhere.
func LocalPath(name string) string {
	p := strings.ReplaceAll(strings.TrimSpace(name), `\`, "/")
	if len(p) >= 5 && strings.EqualFold(p[:5], "file:") {
		p = p[5:]
		if host, rest, ok := strings.Cut(strings.TrimPrefix(p, "//"), "/"); ok && strings.HasPrefix(p, "//") &&
			(host == "" || strings.EqualFold(host, "localhost")) {
			p = "/" + rest
		}
	} else if scheme, _, ok := strings.Cut(p, "://"); ok && !strings.ContainsAny(scheme, "/. ") &&
		!strings.Contains(p, "/..") {
		return ""
	}
	if plain, err := url.PathUnescape(p); err == nil {
		return plain
	}
	return p
}

// SecretFile reports whether a path names a file with credentials, or a folder of such files. Source code and examples
// do not count: secret_manager.go, .env.example, id_rsa.pub, testdata/server.key. The function secret, which judges
// words of a command line, is stricter: except for keys under testdata, it counts them too.
func SecretFile(name string) bool {
	w := strings.ToLower(LocalPath(name))
	if w == "" || len(w) > maxPath || strings.ContainsAny(w, "\n\r\t") {
		return false
	}
	w = path.Clean(w)
	base := path.Base(w)
	if harmlessSecret[base] || slices.ContainsFunc(publicEndings, func(s string) bool { return strings.HasSuffix(base, s) }) {
		return false
	}
	parts := strings.Split(w, "/")
	switch {
	case slices.ContainsFunc(parts, func(p string) bool { return secretFolders[p] }):
		return true
	case strings.HasPrefix(base, ".env") && !strings.HasPrefix(base, ".environment"),
		slices.ContainsFunc(secretNames, func(s string) bool { return strings.HasPrefix(base, s) }):
		return true
	case strings.Contains(w, "proc/") || strings.Contains(w, "/etc/") || strings.Contains(w, ".config/gcloud"):
		return secret(w)
	}
	return keyFile(base) && !slices.Contains(parts, "testdata") || strings.HasSuffix(base, "_history") ||
		base == "secrets" || strings.HasSuffix(base, ".env") ||
		(strings.Contains(base, "credential") || strings.Contains(base, "secret")) && dataFile[path.Ext(base)]
}

// keyFile reports whether a file's name, in lower case, is one of private keys or of a state with credentials.
func keyFile(base string) bool {
	return slices.ContainsFunc(keyEndings, func(s string) bool { return strings.HasSuffix(base, s) && base != s })
}

var (
	keyEndings = []string{".key", ".pfx", ".p12", ".p8", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate",
		".tfstate.backup", "key.pem", "-key.json", "kubeconfig", "service-account.json", "service_account.json", ".dockercfg"}
	secretFolders = set(".ssh .aws .gnupg .azure .docker .kube")
	secretNames   = []string{".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".s3cfg", ".vault-token",
		".htpasswd", ".git-credentials", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "credentials"}
	harmlessSecret = set("known_hosts authorized_keys")
	publicEndings  = []string{".pub", ".example", ".sample", ".template", ".dist", ".go", ".py", ".js", ".jsx", ".ts",
		".tsx", ".java", ".kt", ".rb", ".rs", ".c", ".h", ".cpp", ".cs", ".php", ".swift", ".sh", ".md", ".mdx", ".rst",
		".html", ".css", ".svg", ".png"}
	dataFile = set(".json .yaml .yml .toml .ini .cfg .conf .properties .xml .txt .csv .key .pem .db .sqlite .kdbx " +
		".gpg .enc .bak .old .zip")
)
