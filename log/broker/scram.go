package broker

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// scramIterations is Kafka's default.
const scramIterations = 4096

// credential is what SCRAM (RFC 5802) keeps of a password.
type credential struct {
	salt, storedKey, serverKey []byte
}

// credentials are made from passwords when they are first needed.
type credentials struct {
	mu     sync.Mutex
	made   map[string]credential // mechanism and name
	secret []byte                // of which the salts of users that do not exist are made
}

func hashOf(mechanism string) func() hash.Hash {
	if mechanism == scramSHA512 {
		return sha512.New
	}
	return sha256.New
}

func mac(h func() hash.Hash, key []byte, message string) []byte {
	m := hmac.New(h, key)
	m.Write([]byte(message))
	return m.Sum(nil)
}

func digest(h func() hash.Hash, b []byte) []byte {
	d := h()
	d.Write(b)
	return d.Sum(nil)
}

// of returns a user's credential. For a name that nobody has it makes one up, the same each time, so that a login tells
// nobody which names exist.
func (c *credentials) of(mechanism, name string, user *User) (credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secret == nil {
		c.secret = make([]byte, sha256.Size)
		_, _ = rand.Read(c.secret) // never fails
		c.made = map[string]credential{}
	}
	h := hashOf(mechanism)
	salt := mac(sha256.New, c.secret, mechanism+"\x00"+name)[:16]
	if user == nil {
		return credential{salt: salt}, nil
	}
	if made, ok := c.made[mechanism+"\x00"+name]; ok {
		return made, nil
	}
	salted, err := pbkdf2.Key(h, user.Password, salt, scramIterations, h().Size())
	if err != nil {
		return credential{}, err
	}
	made := credential{salt: salt, storedKey: digest(h, mac(h, salted, "Client Key")), serverKey: mac(h, salted, "Server Key")}
	c.made[mechanism+"\x00"+name] = made
	return made, nil
}

// scramExchange is one login by SCRAM.
type scramExchange struct {
	server    *Server
	mechanism string

	user        *User
	credential  credential
	nonce       string // the client's and then ours
	clientNonce string
	messages    string // the first of the client, bare, and the first of the server
	header      string // of the client's first
	second      bool
}

func (e *scramExchange) step(token []byte) ([]byte, *User, error) {
	if e.second {
		return e.final(string(token))
	}
	e.second = true
	reply, err := e.begin(string(token))
	return reply, nil, err
}

// begin takes "n,,n=name,r=nonce" and answers "r=nonce,s=salt,i=iterations".
func (e *scramExchange) begin(message string) ([]byte, error) {
	parts := strings.SplitN(message, ",", 3)
	if len(parts) != 3 || parts[0] != "n" && parts[0] != "y" {
		return nil, errLogin
	}
	e.header = parts[0] + "," + parts[1] + ","
	bare := parts[2]
	fields := attributes(bare)
	name := strings.NewReplacer("=2C", ",", "=3D", "=").Replace(fields["n"])
	if name == "" || fields["r"] == "" || fields["m"] != "" {
		return nil, errLogin
	}
	e.user = e.server.userNamed(name)
	var err error
	if e.credential, err = e.server.credentials.of(e.mechanism, name, e.user); err != nil {
		return nil, errLogin
	}
	own := make([]byte, 18)
	_, _ = rand.Read(own) // never fails
	e.clientNonce = fields["r"]
	e.nonce = e.clientNonce + base64.StdEncoding.EncodeToString(own)
	first := fmt.Sprintf("r=%s,s=%s,i=%d", e.nonce, base64.StdEncoding.EncodeToString(e.credential.salt), scramIterations)
	e.messages = bare + "," + first
	return []byte(first), nil
}

// final takes "c=header,r=nonce,p=proof" and answers "v=signature".
func (e *scramExchange) final(message string) ([]byte, *User, error) {
	at := strings.LastIndex(message, ",p=")
	if at < 0 {
		return nil, nil, errLogin
	}
	without, fields := message[:at], attributes(message)
	header, err1 := base64.StdEncoding.DecodeString(fields["c"])
	proof, err2 := base64.StdEncoding.DecodeString(fields["p"])
	h := hashOf(e.mechanism)
	if err1 != nil || err2 != nil || e.user == nil || string(header) != e.header || !e.nonceFits(fields["r"]) || len(proof) != h().Size() {
		return nil, nil, errLogin
	}
	all := e.messages + "," + without
	key := mac(h, e.credential.storedKey, all)
	subtle.XORBytes(key, key, proof)
	if subtle.ConstantTimeCompare(digest(h, key), e.credential.storedKey) != 1 {
		return nil, nil, errLogin
	}
	signature := mac(h, e.credential.serverKey, all)
	return []byte("v=" + base64.StdEncoding.EncodeToString(signature)), e.user, nil
}

// nonceFits compares what the client returns with what it was given. librdkafka before 2.6.1 puts its own part in front of
// that once more, and Kafka never looked. The proof covers what was sent in either case.
func (e *scramExchange) nonceFits(nonce string) bool {
	return nonce == e.nonce || nonce == e.clientNonce+e.nonce
}

// attributes reads "a=x,b=y".
func attributes(s string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			out[name] = value
		}
	}
	return out
}
