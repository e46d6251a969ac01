"""Skeletons of stories: what befalls {name}, who is {a}, with {friend}, who is {fa}."""


def paragraphs(text: str) -> tuple[str, ...]:
    """The texts between blank lines, each as one line."""
    return tuple(" ".join(part.split()) for part in text.split("\n\n"))


OPENINGS = (
    "Once upon a time there was {a} called {name}, who lived {place}.",
    "Once there was {a} called {name}. {He} lived {place}.",
    "Long ago there lived {a} called {name} {place}.",
    "{name} was {a} who lived {place}.",
    "This is the story of {name}, {a} who lived {place}.",
    "Everybody knew {name}, {a} with [a loud laugh|kind eyes|a warm heart|a funny hat|a red scarf].",
    "Far away, {place}, {a} called {name} [had just woken up|sat and dreamed|was thinking].",
    "There was nobody as {trait} as {name}, {a} who lived {place}.",
    "{name} was {a} and very {trait}. {He} lived {place}.",
    "Not so long ago {a} called {name} came to live {place}.",
    "If you had been {place} in those days, you would have met {name}, {a}.",
    "Do you know {name}? {He} was {a} and lived {place}.",
)

NAMELESS = (
    "Once upon a time there was {a}.", "There once was {a} who lived {place}.",
    "{time}, {a} went for a walk.", "Long ago, {a} lived {place}.", "{time}, {a} woke up very early.",
    "Deep in the night, {a} looked at the sky.",
    "{A} lived {place}.", "There was {a}, and nobody knew where {he} came from.",
)

LOVING = (
    "{He} loved {love} [more than anything else|above all|very much].",
    "Nothing was [dearer to {him} than|as beautiful to {him} as] {love}.",
)

LOVING_STILL = (
    "And {he} loved {love} all {his} life.",
    "But nothing was as dear to {him} as {love}.",
    "And when all was done, {he} thought of {love} again.",
)

PLOTS = paragraphs("""
{time}, {name} lost {his} {thing}. [{He} looked under the bed and behind the door|{He} searched the whole
house|{He} turned every stone], but it was not there. On the road {he} met {fa} called {friend}. "[I have
lost my {thing}|Have you seen a {thing}?|My {thing} is gone]," said {name}. "[Let us look together|Four eyes
see more than two|I will help you]," said {friend}. They [looked in the grass|walked along the river|asked
everybody they met] until [it was nearly dark|the sun went down]. Then something shone [in a nest|under a
leaf|beside the well]. It was the {thing}! [A magpie had taken it|The wind had carried it there|It had fallen
there the day before]. {name} was so glad that {he} [danced|laughed out loud|gave {friend} a hug], and [from
that day on they were friends|they shared {food} for supper].

{time}, {name} found a {thing} [on the path|under an old tree|beside the river]. It was [beautiful|lovely],
and {he} wanted to keep it. But [at night {he} could not sleep|in {his} heart {he} knew that it belonged to
somebody else]. So {he} [went from door to door|asked everyone {he} met]: "Is this {thing} yours?" [Everybody
shook their heads|Nobody had lost it|For a long time the answer was no]. At the last house sat {fa} called
{friend}, [crying softly|with a sad face]. "My {thing}!" cried {friend}. "[My grandmother gave it to me|I
thought that it was gone for ever]." {name} gave it back, and {friend} [baked {food} for both of them|thanked
{him} a hundred times]. [An honest heart sleeps well|That night {name} slept better than ever].

{name} was afraid of the dark. Every evening {he} [lit three candles|hid under the blanket|closed the
curtains]. {time}, [the lights went out|a storm put out the lamp], and {he} heard [a knock|a soft voice|small
steps]. It was {fa} called {friend}, who [had lost the way|was afraid, too]. "[Do not worry|Come with me],"
said {friend}, "[the dark is only the day with its eyes closed|in the dark one sees the stars best]." They
went outside together. [Above them shone a thousand stars|The moon stood over the hills like a lamp|An owl
flew past without a sound]. {name} [had never seen anything so beautiful|forgot to be afraid]. Since then
{he} [blows out the candle {himself}|looks forward to the night].

{time}, there was a great race. {name} wanted to win it more than anything. [{He} practised every day|{He}
ran up and down the hill each morning]. On the day of the race {he} was [far ahead|the fastest of all] when
{he} saw {fa} called {friend}, who had [fallen into a ditch|hurt a foot|got caught in a bush]. {name}
[stopped at once|thought for a moment and turned round]. "[You will lose!|Run on!|Never mind me]," said
{friend}. "[A race comes every year, but a friend does not|Some things matter more]," said {name}, and helped
{fhim} up. They came in last, [hand in hand|side by side], but [everyone clapped|the cheering was louder than
for the winner]. And the prize that {name} got was {friend}, who became {his} best friend.

{name} wished to [swim|sing|dance|skate|whistle|paint] well, but whenever {he} tried, it went wrong. [The
others laughed|Everybody smiled a little|People covered their eyes]. So {he} went to {fa} called {friend},
who was known to be [wise|patient]. "[Show me the secret|Please teach me]," said {name}. {friend}
smiled. "[There is no secret|The secret is short]: try once more than you fail." {name} tried [in the rain
and in the sun|every morning before breakfast]. [Ten times it went wrong|At first nothing changed], then a
little less, and {later} it [went right|worked]. [Nobody laughed any more|Everybody was amazed]. "Who
taught you?" they asked. "{friend}, and all my mistakes," said {name}.

{time}, {name} heard a strange sound: [boom, boom, boom|a long, deep hum|tick, tack, tick]. It came from [the
cellar|behind the hill|the old barn]. ["A monster!" said the neighbours|Everybody locked their doors], but
{name} was {trait} and wanted to know. {He} took a lantern and went there [step by step|on tiptoe]. What did
{he} find? It was {fa} called {friend}, who [was playing a drum|was building a machine|had a bad cold and
could not stop snoring]. "[I am sorry|Oh dear]," said {friend}, "[I did not know that anyone could hear me|I
thought that I was alone]." {name} [laughed|had to smile] and invited {fhim} to [tea|supper]. [Since then
nobody is afraid of the sound|The neighbours came, too, and brought {food}].

{friend}, {fa}, had {fhis} birthday soon, and {name} wanted to give {fhim} something special. But {he} had no
[money|coins]. [{He} thought and thought|All night {he} lay awake]. First {he} picked flowers, but [they
faded|a goat ate them]. Then {he} baked {food}, but [they burned|the birds were faster]. At last {he} [wrote
a song|painted a picture|told a story about their friendship]. {name} was [ashamed that it was so little|not
sure that it was enough]. But {friend} [had tears in {fhis} eyes|beamed]. "[Nobody ever made something just
for me|This is the best present of all]," {fhe} said. And {fhe} [keeps it to this day|never forgot it].

One year it did not rain in the land, and [the fields turned brown|the wells ran dry]. {name} was sad about
[the thirsty flowers|the thirsty animals]. {He} heard of {fa} called {friend}, who lived on the highest
mountain and [knew the clouds|could talk with the rain]. {name} climbed [for three days|over rocks and
through thorns]. "[Why does it not rain?|Please send us rain]," {he} said. "[The clouds are sad|The clouds
have fallen asleep]," answered {friend}. "[Somebody must sing to them|Nobody has thanked them for a long
time]." So {name} [sang the most beautiful song {he} knew|thanked the clouds with all {his} heart]. Drop by
drop it began to rain. [The people danced in the streets|Soon everything was green again]. Since then {name}
says thank you for every drop.

{time}, {name} found an old map in a [bottle|book|box]. [A red cross stood on it|It showed a treasure]. {He}
asked {fa} called {friend} to come along, for two are braver than one. They [crossed the river on a raft|went
through the dark wood|walked over three hills]. When {he} wanted to give up, {friend} [told jokes|sang]; and
when {friend} was tired, {name} carried {fhis} bag. At the cross they dug and found [an empty box|a box with
a letter]. ["No gold?" asked {friend}|They looked at each other]. In the box stood the words: "The treasure
is the one who came with you." They [laughed all the way home|sat in the sun and ate {food}]. It was true.

{name} thought that {he} could do everything alone. "[I need nobody|Help is for the weak]," {he} always said.
{time}, {he} [fell into a deep hole|got stuck in the mud|climbed a tree and could not get down]. {He} tried
for hours. {fA} called {friend} came by and asked: "[Shall I help you?|Do you need a hand?]" "No!" said
{name}. But [the evening came|it began to rain], and {he} was [cold|hungry]. At last {he} said in a small
voice: "Please help me." [It took {friend} one minute|With a rope it was easy]. "[Was that so hard?|You
see?]" asked {friend}. "[The asking was harder than the climbing|Only the asking]," said {name}, and both had
to laugh.

{name} and {friend}, {fa}, were neighbours, and they quarrelled about [an apple tree|a fence|a garden path].
[They did not speak for weeks|Each of them built the wall a bit higher]. {time}, a storm [blew down the
wall|tore off both their roofs]. There they stood in the rain and looked at each other. "[Your roof or mine
first?|I have a hammer]," said {name}. "[I have nails|Yours first]," said {friend}. They worked [all
day|until the stars came out]. And when they were done, {friend} [brought {food}|made hot soup]. "What was it
that we quarrelled about?" asked {name}. [Neither of them could remember|"I forgot," said {friend}]. They
never built the wall again.

{time}, {name} found a seed [no bigger than a crumb|as black as night]. {He} put it into a pot and watered
it. [Nothing happened for a week|Days went by, and nothing came up]. "[Throw it away|It is only a stone],"
said the others. But {fa} called {friend} said: "[Good things are slow|Give it time]." So {name} waited, and
[told the pot a story each night|put the pot in the sun each morning]. {Later} a green tip came out. It
grew and grew, [past the window|up to the roof], and at last it bore [golden pears|flowers that rang like
bells|blue berries as sweet as honey]. {name} gave the first one to {friend}, and [the seeds to everyone who
wanted them|planted the seeds beside the road].

{time}, something fell from the sky [with a bright flash|right into the garden]. {name} ran there. It was a
little star, and it was [cold|crying]. "[I want to go home|I have lost my place]," said the star. {name}
asked {fa} called {friend} for advice. They [built a tower of chairs|tied a basket to a kite|climbed the
highest tree], but [the sky was too high|it was not enough]. "[Perhaps we need a wish|Stars rise when
somebody wishes]," said {friend}. So {name} closed {his} eyes and wished [with all {his} heart|very hard].
The star began to glow, rose higher and higher, and was home. Since then one star [winks|shines a little
brighter] when {name} looks up.

{time}, {fa} called {friend} moved in next door. [Nobody wanted to play with {fhim}|Everybody whispered about
{fhim}], because {fhe} [looked different|spoke in a strange way|was so shy]. {name} [felt sorry for
{fhim}|remembered how it is to be alone]. So {he} knocked at the door with {food}. "[Hello, I live next
door|Welcome]," {he} said. {friend} [smiled for the first time|opened the door a tiny bit]. It turned out
that {fhe} could [walk on {fhis} hands|make shadow animals|tell wonderful tales]. Soon [all the others came,
too|the whole street stood at the fence]. "[Why did we wait so long?|We nearly missed this]," they said. It
only takes one to begin.

{name} had a {thing} that {he} loved. {time}, it broke [into two pieces|in {his} hands]. {He} was very sad
and took it to {fa} called {friend}, who could mend [nearly everything|things]. "[It will not be as
before|One will see the crack]," said {friend}. {fHe} worked [the whole night|for three days] with [golden
glue|a thin silver thread]. When {name} saw it, {he} was quiet for a while. [A bright line ran across it like
a river on a map|It shone where it had been broken]. "[It is more beautiful than before|Now it has a story],"
{he} said. Since then {name} [is not afraid of breaking things|mends what others throw away].

One winter it snowed for [a week|nine days], and the snow lay [as high as the door|up to the windows]. {name}
had [enough wood|a warm stove], but {he} thought of {friend}, {fa} who lived alone [on the hill|by the wood].
{He} tied two boards to {his} feet, packed {food} and went out. The wind [howled|pushed {him} back], and
[three times {he} fell|{he} could hardly see]. At last {he} saw a weak light. {friend} was [cold|weak], and
the fire was out. {name} [made a fire|cooked soup] and told stories until [the storm was over|morning came].
"[How can I thank you?|You came through all that snow for me?]" asked {friend}. "[Leave your light on|Come to
me next time]," said {name}, "so that I find the way."

{time}, {name} [broke the window of|ate all the jam of|stepped on the flowers of] {friend}, {fa}. "Who did
that?" asked {friend}. "[The wind|A stranger]," said {name}. But the lie [grew heavy like a stone|sat in
{his} belly like a cold potato]. {He} could not [eat|play] any more. Then {he} [took a deep breath|went back
with red ears] and said: "It was me. I am sorry." {friend} looked at {him} for a long time. "[I knew it|I saw
you]," {fhe} said, "[and I am glad that you told me|I only waited for you to come]." Together they [put it
right|cleaned up]. And {name} felt as light as a feather.

{name} liked to build things. {He} had built [a spoon that sang|a hat with a bell|a chair with wheels], but
{his} dream was a machine that could fly. {time}, it was ready. {He} [jumped from the hill|pulled the lever],
and crash, {he} lay in the hay. {fA} called {friend} had watched it. "[The wings are too short|You forgot the
tail]," said {friend}. {name} wanted to be angry, but then {he} [saw that it was true|asked: how do you know
that?]. They built a second one together, and a third. The fourth [rose over the roofs|flew over the lake],
with both of them in it. "[Where to?|Left or right?]" called {name}. "[Everywhere|Straight on]!" called
{friend}.

{name} could not sleep. {He} [counted sheep|drank warm milk|turned from side to side], but nothing helped. So
{he} went out and met {fa} called {friend}, who [kept watch at night|could not sleep either]. "[What keeps
you awake?|What are you thinking of?]" asked {friend}. "[I think of tomorrow|My head is full of questions],"
said {name}. "[Give me your thoughts|Tell them to me], one by one. I will keep them until morning." {name}
told and told, and with each thought {he} became [lighter|quieter]. [After the seventh {he} yawned|Before
{he} was done, {his} eyes closed]. {friend} [put a blanket over {him}|carried {him} home]. And in the morning
most of the thoughts [were gone|looked small].

{time}, {name} freed {fa} called {friend} from [a net|a thorn bush|a trap]. "For that you have one wish,"
said {friend}. {name} thought. [Gold? Gold is heavy|A castle? Who would clean it?]. [A crown? It presses on
the ears|To be big? Then the bed is too short]. {He} thought the whole day while they [walked by the
river|sat on a wall and ate {food}]. In the evening {friend} asked: "[Well, what do you wish?|Now?]" "[That
we do this again tomorrow|Another day like this]," said {name}. {friend} [laughed|smiled]. "[For that you
need no magic|That one is free]," {fhe} said. And so they met again the next day, and the wish is still left.

{name} wanted to go to the market with [a basket of eggs|a jar of honey|three pumpkins]. With the money {he}
would buy a {thing}. On the way {he} met {fa} called {friend}, who [had not eaten for two days|was very
hungry]. {name} [gave {fhim} a part|shared]. Then came [a mother with five children|an old man|three tired
travellers], and {he} shared again. At the market {his} basket was empty. {He} went home [slowly|without
anything], but was not sad. {Later} there was a knock at the door. There stood {friend} and all the
others with [flowers|bread and fruit]; and in the middle lay a {thing}. What one gives away [comes back in
other clothes|is not lost].

{time}, there was to be a concert, and {name} was to [sing|play the flute|beat the drum]. But {he} was so
nervous that {his} knees [shook|knocked]. "[I cannot do it|Everybody will look at me]," {he} said to
{friend}, {fa}. "[Look only at me|Play for me alone]," said {friend}, "[I will sit in the first row|I shall
stand by the door]." When the curtain went up, {name} saw a hundred faces. Then {he} found {friend}, [who
made a funny face|who waved]. {He} began, [softly at first|a bit too fast], then better and better. At the
end [the hall was silent for a moment, and then everyone stood up|they clapped until the lamps shook]. "Were
you afraid?" asked {friend}. "[Yes|A lot]," said {name}, "[and I did it anyway|but not alone]."

{time}, {name} went [to pick berries|for a walk|to look for mushrooms], and fog came up, as thick as
[milk|wool]. {He} could not see {his} own feet. [{He} called, but nobody answered|Left and right looked the
same]. Then {he} heard a bell, [ding, ding|very soft]. {He} followed it, step by step, and found {fa} called
{friend}, [who had a small bell around the neck|who rang a bell in every fog]. "[Once I was lost
myself|Somebody did it for me once]," said {friend}, "and so I ring." They [waited together until the fog was
gone|went home hand in hand]. Now {name} has a bell, too. And when fog comes up, [there are two who ring|one
hears it far over the fields].

{name} had built a small boat. {time}, {he} sailed out [on the lake|to the island]. [The sun shone, and the
water was smooth|A light wind blew]. But then [waves came up|the boat began to leak]. {name} [bailed with
{his} hat|held on to the mast]. Out of the water came the voice of {fa} called {friend}: "[Throw me the
rope|Hold tight]!" {friend} pulled, and {name} steered, and so they reached the shore, [wet to the bone|tired
but safe]. {name} gave {friend} {his} {thing} as a thank-you. "[I do not need it|Keep it]," said {friend},
"[but you may take me along next time|just call the boat after me]." Since then the boat is called {friend}.

{name} was the smallest of all. When the others [picked apples|played ball|lifted stones], {he} could only
watch. "[You are too small|Wait until you are big]," they said. {time}, the key of the house fell through a
crack in [the floor|the wall]. [Nobody's arm was thin enough|They pulled and pushed in vain]. {friend}, {fa},
[began to cry|wanted to break down the door]. "Let me," said {name}. {He} [crept|slipped] into the crack, and
it was dark there and full of dust. But soon {he} came out again with the key [on {his} back|in {his} hand].
[Everybody cheered|They carried {him} around the house]. "[It is good that you are small|We were silly],"
said {friend}. "I know," said {name}.

{time}, the wind brought {name} a letter without a name. It said: "[I am alone. Who are you?|Is anybody out
there?]" {name} [wrote an answer|drew a picture] and let the wind carry it away. [A week later|The next day]
a second letter came. So it went [all summer|for many months]: they wrote about {food}, about [the
weather|their dreams], about everything. At last {name} asked: "[Shall we meet?|Where do you live?]" And what
do you think? The letters came from {fa} called {friend}, who lived [just behind the next hill|on the other
side of the river]. They [talked until midnight|had a picnic on the hill]. They still write letters, because
[some things are easier on paper|letters are so nice to get].

{time}, the lamps of the town went out, one after the other. [Somebody stole the light!|Nobody knew why.]
{name} [hid behind a barrel|waited at the last lamp]. At midnight came {fa} called {friend} with a sack.
"[Stop|Caught]!" called {name}. "[Please do not be angry|I only wanted a little]," said {friend}. "[My cave
is so dark|I have never had a light of my own]." {name} thought about it. Then {he} [gave {fhim} {his} own
lantern|showed {fhim} how to make candles]. {friend} [opened the sack|shook out the sack], and the light flew
back to the lamps like [a swarm of bees|golden birds]. And from that night on a small warm light [shines|is
seen] in the cave.

{name} was always in a hurry. {He} ate in a hurry, [talked in a hurry|walked in a hurry] and even slept in a
hurry. {time}, {he} ran into {fa} called {friend}, and both fell down. "[Where are you running to?|What do
you run from?]" asked {friend}. {name} opened {his} mouth, but [no answer came|{he} did not know]. "Then sit
down a minute," said {friend}. They sat. [A snail crossed the path|A cloud became a whale|Somewhere a bird
began to sing]. "[Is it always like this here?|Has that always been here?]" asked {name}. "Always," said
{friend}. Since then {name} comes [every Sunday|each evening], and {he} walks there slowly.

{name} wanted to bake the biggest cake of the land. {He} took [a hundred eggs|a barrel of flour] and stirred
[with an oar|the whole day]. But the cake did not stop growing! It [lifted the roof|came out of the window].
{fA} called {friend} came running. "[What is that?|Help, a cake!]" cried {friend}. "[I took too much yeast|It
will not stop]," said {name}. "Then there is only one thing to do," said {friend}: "we must eat it." They
called [everyone|old and young, friends and strangers], and everyone came with a spoon. They ate [three days
long|until the moon rose]. In the end there was one crumb left. [A mouse took it home|They put it in a
museum]. And the next day {name} baked something small.

{time}, {name} found a mirror in the attic that could talk. "[Make me beautiful|Who am I?]," said {name}.
"[Ask somebody who likes you|I only show the outside]," said the mirror. {name} went to {friend}, {fa}.
"[What do you see when you look at me?|Am I beautiful?]" {he} asked. {friend} thought for a while. "[I see
the one who carried my bag|I see who came when I was ill]," said {fhe}. "[I see the one who laughs at my
jokes|I see my friend]." {name} [went home with warm ears|said nothing, but {he} smiled]. {He} covered the
mirror with a cloth. "[Did you find an answer?|Well?]" asked the mirror. "A better one than yours," said
{name}.
""")

SHORT_PLOTS = (
    "{time}, {he} met {fa} called {friend}. They shared {food}, laughed a lot and became friends for life.",
    "{time}, {he} lost {his} {thing}. {friend}, {fa}, found it under a leaf. {name} was so happy that {he} "
    "sang all day.",
    "{He} wished to see the sea. So {he} walked for seven days with {friend}, {fa}. When they saw the "
    "waves, they were silent, and then they cheered.",
    "{He} was afraid of thunder. {time}, {friend}, {fa}, told {him} that thunder is only the sky clapping. "
    "Since then {name} takes a bow in every storm.",
    "{time}, {he} planted a small seed. {friend}, {fa}, brought water. Now a tall tree stands there, and "
    "both of them sit in its shade.",
    "{He} wanted to touch the moon. {friend}, {fa}, brought a bowl of water, and the moon lay in it. "
    "{name} touched it, very gently.",
    "{He} could not sleep. {friend}, {fa}, hummed a song about the stars. At the third star {name} was "
    "asleep.",
    "{time}, {he} helped {fa} called {friend} out of a ditch. The next day {name} fell into one, too. "
    "Guess who came to help!",
    "{He} baked {food} for everybody and forgot {himself}. But {friend}, {fa}, had kept the last one for "
    "{him}.",
    "{He} was looking for a treasure. {time}, {he} found {fa} called {friend} instead, and stopped looking.",
)

CLOSINGS = (
    "", "", "", "", "", "The end.", "And that is the end of the story.", "And if you listen closely, you "
    "can still hear them laugh.",
    "That evening the sky was [red and gold|full of stars].", "Then the moon came up, and all was well.",
    "And {name} smiled.", "It was a very good day.",
)
