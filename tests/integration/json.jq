# SPDX-License-Identifier: BSD-3-Clause
# Check outputs against the schema, $schema[0], as far as it is used there.  The input is an array
# of { entry: an entry of $defs, value: what a command printed }.  Prints a line for each fault: a
# value that the schema does not allow, a keyword that is not known here, a member that is not
# always there, a member of which there was no output, and members of one name with different types.
# $unseen: an expression for members of which there may be no output.

$schema[0] as $root |

def resolve: .["$ref"] as $ref |
	if $ref then $root | getpath($ref | ltrimstr("#/") | split("/")) else . end;

# the types of JSON that the input has
def types: type | if . == "number" then [., "integer"] else [.] end;

# {fault} and {seen} of the input; where: the entry of $defs and the members below it
def check($given; $where):
	. as $value |
	($given | resolve) as $s |
	($given["$ref"] // $where | ltrimstr("#/$defs/")) as $where |
	([$s.type // empty] | flatten) as $allowed |
	if $s.anyOf then
		[$s.anyOf[] as $one | [$value | check($one; $where)]] |
		(map(select(all(.[]; .fault == null))) | first) // first | .[]
	elif ($value | types) - ($allowed) == ($value | types) or
		($allowed == ["integer"] or $allowed == ["integer", "null"]) and
		($value | type == "number" and . != floor) then
		{ fault: "\($where): \($value | tojson) is not of type \($allowed | join(" or "))" }
	elif $value == null then
		empty
	elif $s.enum and ([$value] - $s.enum != []) then
		{ fault: "\($where): \($value | tojson) is not in the list" }
	elif ($s.pattern and ($value | test($s.pattern) | not)) or
		($s.minimum and $value < $s.minimum) then
		{ fault: "\($where): \($value | tojson) is out of range" }
	elif ($value | type) == "object" then
		($value | to_entries[] | .key as $key | "\($where).\($key)" as $member |
			if $s.properties[$key] then
				{ seen: $member }, (.value | check($s.properties[$key]; $member))
			else { fault: "\($member) is not in the schema" } end),
		($s.required - ($value | keys) | .[] | { fault: "\($where).\(.) is missing" })
	elif ($value | type) == "array" then
		.[] | check($s.items; $where)
	else empty end;

def keywords: ["$schema", "$id", "$ref", "$defs", "title", "description", "type", "enum", "pattern",
	"minimum", "anyOf", "items", "required", "additionalProperties", "properties"];

# the objects of the schema, with their places
def schemas($where):
	{ where: $where, schema: . },
	((.["$defs"] // {}) | to_entries[] | .key as $key | .value | schemas([$key])),
	((.properties // {}) | to_entries[] | .key as $key | .value | schemas($where + [$key])),
	(.items // empty | schemas($where)),
	((.anyOf // [])[] | schemas($where));

. as $outputs |
[$root | schemas([])] as $all |
[$outputs[] | .entry as $entry | .value | check({ "$ref": "#/$defs/\($entry)" }; "")] as $found |
[$all[] | select(.schema.properties) | (.where | join(".")) as $where |
	.schema.properties | keys[] | "\($where).\(.)"] as $members |
[$all[] | select(.where | length > 0)] as $below |
($found[].fault // empty),
($all[] | .where as $where | .schema | keys - keywords | .[] |
	"\($where | join(".")): keyword \(.) is not known"),
($all[] | select(.schema.type == "object") | .where as $where | .schema |
	select(.additionalProperties != false or ((.properties | keys) != (.required | sort))) |
	"\($where | join(".")): other members are allowed, or not all are required"),
($members - [$found[].seen // empty] | .[] | select(test($unseen) | not) |
	"\(.): no command has printed it"),
([$below[] | select(.schema["$ref"] and (.where[0] | endswith("_refusals") | not)) |
	{ name: .where[-1], ref: .schema["$ref"] | sub("_or_null$"; "") } |
	select(.ref as $ref | { "$ref": $ref } | resolve | .type |
		. == "object" or . == "array" | not)] |
	# the value of a notification is a number, that of what was seen a text
	map(select(.name != "value")) | group_by(.name)[] |
	.[0].name as $name | map(.ref) | unique |
	select(length > 1) |
	"\($name) has several types: \(join(", "))")
