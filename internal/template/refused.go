package template

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// refusal is why a function may not be used, and what to do instead.
type refusal struct{ reason, instead string }

// Why functions of sprig are refused. Every render of one cluster has to give
// the same bytes on every host, or a reload would follow each of them; and what
// a function changes would be changed for the next render and for other outputs.
var (
	readsClock   = refusal{"it reads the clock, so that each render would differ", "take the time out of the template"}
	readsZone    = refusal{"it reads the host's time zone", "use dateInZone or htmlDateInZone with a zone"}
	parsesInZone = refusal{"it reads a time in the host's time zone", "give the time as seconds since 1970 in a param"}
	random       = refusal{"it is random, so that each render would differ", "derive what is needed from a name, with sha256sum or vrid"}
	randomSalt   = refusal{"it takes a random salt, so that each render would differ", "put the finished hash into a param"}
	randomIV     = refusal{"it takes a random initialisation vector, so that each render would differ", "put the finished text into a param"}
	makesKey     = refusal{"it makes a random key, so that each render would differ", "make keys and certificates outside and refer to their files"}
	readsEnv     = refusal{"it reads the environment of the agent", "put the value under params and read .Params"}
	asksDNS      = refusal{"it asks the resolver of the host, and takes a random answer", "put the address under params"}
	changesInput = refusal{"it changes its input, which other templates read too", "build a new one with dict, pick, omit or append"}
)

// refusals are the functions of sprig that are refused. A test holds this list
// against every function that sprig has.
func refusals() map[string]refusal {
	return map[string]refusal{
		"now": readsClock, "ago": readsClock,
		"date": readsZone, "htmlDate": readsZone,
		"toDate": parsesInZone, "mustToDate": parsesInZone,
		"randAlphaNum": random, "randAlpha": random, "randAscii": random, "randNumeric": random, "randBytes": random, "randInt": random,
		"shuffle": random, "uuidv4": random,
		"bcrypt": randomSalt, "htpasswd": randomSalt, "encryptAES": randomIV,
		"genPrivateKey": makesKey, "genCA": makesKey, "genCAWithKey": makesKey, "genSelfSignedCert": makesKey,
		"genSelfSignedCertWithKey": makesKey, "genSignedCert": makesKey, "genSignedCertWithKey": makesKey,
		"env": readsEnv, "expandenv": readsEnv, "getHostByName": asksDNS,
		"set": changesInput, "unset": changesInput, "merge": changesInput, "mergeOverwrite": changesInput,
		"mustMerge": changesInput, "mustMergeOverwrite": changesInput,
	}
}

// functions returns what a template may call, and what it may not.
func functions(allow []string) (template.FuncMap, map[string]refusal, error) {
	refused := refusals()
	funcs := sprig.TxtFuncMap()
	for name, f := range ours() {
		funcs[name] = f
	}
	for _, name := range allow {
		if _, ok := funcs[name]; !ok {
			names := make([]string, 0, len(refused))
			for n := range refusals() {
				names = append(names, n)
			}
			sort.Strings(names)
			return nil, nil, fmt.Errorf("allowFunctions: there is no function %q%s; those that can be allowed are %s",
				name, nearest(name, names, ""), strings.Join(names, ", "))
		}
		delete(refused, name)
	}
	for name := range refused {
		delete(funcs, name)
	}
	return funcs, refused, nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
