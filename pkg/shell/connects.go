package shell

import (
	"strings"
)

// connecting are programs that connect to the hosts in their arguments.
var connecting = set(`curl wget nc ncat netcat ssh scp sftp ftp tftp telnet ping ping6 fping nmap socat httpie http
	https xh aria2c lynx links w3m rsync git openssl traceroute nslookup dig host`)

// delivering are programs that send to a service which their settings name.
var delivering = set(`mail mailx sendmail mutt swaks msmtp gh glab hub aws gcloud gsutil az rclone s3cmd kubectl twine
	heroku vercel netlify fly flyctl slack docker podman restic croc wormhole magic-wormhole telegram-send`)

// fetching are programs that send a request to the URL in their arguments.
var fetching = set("curl wget http https xh httpie aria2c axel lynx w3m")

// Connects reports whether a command line contains a program that connects to the hosts in its arguments.
func Connects(line string) bool { return has(line, connecting) }

// Sends reports whether a command line may send something to another machine: it contains a program that connects or
// delivers, or a URL.
func Sends(line string) bool {
	return has(line, connecting) || has(line, delivering) || strings.Contains(line, "://") ||
		strings.Contains(line, "/dev/tcp/") || strings.Contains(line, "/dev/udp/")
}

// Fetches reports whether a command line contains a program that sends a request to the URL in its arguments.
func Fetches(line string) bool { return has(line, fetching) }

func has(line string, programs map[string]bool) bool {
	for w := range strings.FieldsFuncSeq(strings.ToLower(line), SplitsWords) {
		if programs[w[strings.LastIndexByte(w, '/')+1:]] {
			return true
		}
	}
	return false
}

// SplitsWords reports whether a character ends a word of a command line, read without its quotes.
func SplitsWords(r rune) bool {
	return r <= ' ' || strings.ContainsRune("\"'`;|&<>(){}=,$", r)
}
