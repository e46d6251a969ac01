"""Talk in languages other than English, which the model does not speak."""

from random import Random

from .core import SEEN, Turn

ANSWER = "I am sorry, I speak only English. Could you say it in English, please?"

# A paragraph a language or family: phrases of training, and after the bar those held out.
PHRASES = """
Hola; ¡Hola!; ¿Cómo estás?; Buenos días; Buenas tardes; Buenas noches; ¿Qué tal?; ¿Quién eres?; ¿Cómo te
llamas?; Me llamo {n}; Gracias; Muchas gracias; Por favor; Adiós; ¿Hablas español?; ¿Cuál es la capital de
Francia?; ¿Qué hora es?; Cuéntame una historia; Tengo una pregunta; No entiendo; ¿Puedes ayudarme?; Te
quiero; Estoy cansado; ¿Dónde está la estación?; ¿Cuánto es dos más dos?; Cuéntame un chiste | Hola, ¿qué
haces?; ¿De dónde eres?; Hasta luego; Quiero aprender algo

Bonjour; Salut; Bonsoir; Bonne nuit; Ça va?; Comment ça va?; Comment allez-vous?; Comment t'appelles-tu?; Je
m'appelle {n}; Merci; Merci beaucoup; S'il vous plaît; Au revoir; Parlez-vous français?; Tu parles
français?; Quelle est la capitale de l'Italie?; Quelle heure est-il?; Raconte-moi une histoire; J'ai une
question; Je ne comprends pas; Qui es-tu?; Pouvez-vous m'aider?; Je t'aime; Où est la gare?; Combien font
deux et deux?; Je suis fatigué; Oui; Bonne journée | Bonjour, comment vas-tu?; Qu'est-ce que c'est?; À
bientôt; Je voudrais un café

Guten Tag; Hallo, wie geht es dir?; Guten Morgen; Guten Abend; Gute Nacht; Wie geht es dir?; Wie geht's?;
Wer bist du?; Wie heißt du?; Ich heiße {n}; Danke; Vielen Dank; Bitte; Tschüss; Auf Wiedersehen; Sprichst du
Deutsch?; Was ist die Hauptstadt von Frankreich?; Wie spät ist es?; Erzähl mir eine Geschichte; Ich habe
eine Frage; Ich verstehe nicht; Kannst du mir helfen?; Ich liebe dich; Wo ist der Bahnhof?; Was ist zwei
plus zwei?; Ich bin müde; Was kannst du?; Das ist gut; Schönen Tag noch; Erzähl mir einen Witz | Können Sie
mir helfen?; Was machst du heute?; Bis morgen; Ich möchte etwas wissen; Wie ist das Wetter?

Ciao, come stai?; Buongiorno; Buonasera; Buonanotte; Come stai?; Come va?; Chi sei?; Come ti chiami?; Mi
chiamo {n}; Grazie; Grazie mille; Per favore; Arrivederci; Parli italiano?; Qual è la capitale della
Francia?; Che ore sono?; Raccontami una storia; Ho una domanda; Non capisco; Puoi aiutarmi?; Ti amo; Dov'è
la stazione?; Quanto fa due più due?; Sono stanco | Cosa fai oggi?; A domani; Vorrei sapere una cosa

Olá; Bom dia; Boa tarde; Boa noite; Como vai?; Tudo bem?; Quem é você?; Qual é o seu nome?; Meu nome é {n};
Obrigado; Obrigada; Tchau; Você fala português?; Qual é a capital do Brasil?; Que horas são?; Conte uma
história; Não entendo; Pode me ajudar? | Como você está?; Até logo; Eu tenho uma pergunta

Hallo, hoe gaat het?; Goedemorgen; Goedenavond; Hoe gaat het?; Wie ben jij?; Hoe heet je?; Ik heet {n}; Dank
je wel; Tot ziens; Spreek je Nederlands?; Wat is de hoofdstad van Frankrijk?; Hoe laat is het?; Vertel me
een verhaal; Ik begrijp het niet | Kun je mij helpen?; Tot morgen

Hej, hur mår du?; God morgon; Vad heter du?; Jag heter {n}; Tack så mycket; Hej då; Talar du svenska?; Vad
är klockan?; Hvordan har du det?; Hva heter du?; Takk; God dag; Jeg hedder {n}; Mange tak | Kan du hjälpa
mig?; Vem är du?

Cześć; Dzień dobry; Dobry wieczór; Jak się masz?; Kim jesteś?; Jak masz na imię?; Dziękuję; Do widzenia;
Mówisz po polsku?; Która godzina?; Dobrý den; Jak se máš?; Děkuji; Dobar dan; Kako si?; Hvala | Co robisz?;
Nie rozumiem

Merhaba; Nasılsın?; Günaydın; İyi geceler; Teşekkür ederim; Adın ne?; Türkçe biliyor musun?; Szia; Hogy
vagy?; Köszönöm; Hei, mitä kuuluu?; Kiitos; Hyvää päivää; Bună ziua; Ce mai faci?; Mulțumesc; Habari; Jambo;
Xin chào; Selamat pagi; Apa kabar?; Terima kasih | Sen kimsin?; Hyvää yötä; Salve; Quid agis?

Привет; Здравствуйте; Как дела?; Кто ты?; Как тебя зовут?; Спасибо; До свидания; Доброе утро; Ты говоришь
по-русски?; Привіт; Γειά σου; Τι κάνεις;; Καλημέρα; 你好; 你是谁?; 谢谢; 你会说中文吗?; こんにちは; ありがとう; おはよう; 元気ですか?;
안녕하세요; 감사합니다; नमस्ते; مرحبا; كيف حالك؟; שלום | Что ты умеешь?; Доброй ночи; 早上好; こんばんは
"""

LANGUAGES = tuple(" ".join(text.split()).split(" | ") for text in PHRASES.split("\n\n"))
NAMES = ("Ana", "Carlos", "Marie", "Pierre", "Lena", "Jonas", "Luca", "Giulia", "Sofia", "Anna", "Tom", "Eva")


def foreign(rng: Random, split: str) -> Turn:
    """A phrase of some language."""
    seen, held_out = rng.choice(LANGUAGES)
    phrase = rng.choice((seen if split == SEEN else held_out).split("; "))
    return Turn(phrase.strip().format(n=rng.choice(NAMES)), ANSWER)
