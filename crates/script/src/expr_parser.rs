//! Expressions: precedence climbing with pgbench's precedences.
//!
//! Tokens are read only when the grammar needs them, since the first error in reading order is the one to report.

use crate::ast::Expr;
use crate::expr::{Case, Node};
use crate::functions::{Binary, Function, Unary, find};
use crate::lexer::{LexError, Lexer, Token};
use crate::value::Value;

/// The deepest nesting of parentheses, calls and prefixes; limits the parser's recursion to the stack of any thread.
const MAX_NESTING: u32 = 250;

/// The greatest height of the tree, which also grows with a long chain such as `a + b + c + ...`;
/// limits the recursion of evaluation to the stack of any thread.
const MAX_HEIGHT: u32 = 1000;

/// Binding strengths, weakest first.
mod level {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const IS: u8 = 4;
    pub const COMPARISON: u8 = 5;
    pub const BITS: u8 = 6;
    pub const SUM: u8 = 7;
    pub const PRODUCT: u8 = 8;
    pub const UNARY: u8 = 9;
}

/// An error in an expression; the lexer is after the offending token.
pub(crate) type ExprError = LexError;

/// An expression and the depth of its nesting.
struct Tree {
    expr: Expr,
    height: u32,
}

pub(crate) struct ExprParser<'l, 't> {
    lexer: &'l mut Lexer<'t>,
    /// The token that was read ahead, if any.
    ahead: Option<Token<'t>>,
    depth: u32,
}

pub(crate) fn parse_expr(lexer: &mut Lexer<'_>) -> Result<Expr, ExprError> {
    let mut parser = ExprParser { lexer, ahead: None, depth: 0 };
    let tree = parser.expression(level::OR)?;
    match parser.peek()? {
        Token::End => Ok(tree.expr),
        _ => Err(syntax_error()),
    }
}

fn syntax_error() -> ExprError {
    LexError { message: "syntax error", detail: String::new() }
}

#[derive(Clone, Copy)]
enum Operator {
    And,
    Or,
    Plain(Binary),
    /// The right operand comes first.
    Swapped(Binary),
}

fn operator(token: Token<'_>) -> Option<(u8, Operator)> {
    use Operator::{Plain, Swapped};
    let (Token::Symbol(text) | Token::Keyword(text)) = token else {
        return None;
    };
    Some(match text {
        "or" => (level::OR, Operator::Or),
        "and" => (level::AND, Operator::And),
        "=" => (level::COMPARISON, Plain(Binary::Equal)),
        "<>" | "!=" => (level::COMPARISON, Plain(Binary::NotEqual)),
        "<" => (level::COMPARISON, Plain(Binary::Less)),
        "<=" => (level::COMPARISON, Plain(Binary::LessEqual)),
        ">" => (level::COMPARISON, Swapped(Binary::Less)),
        ">=" => (level::COMPARISON, Swapped(Binary::LessEqual)),
        "|" => (level::BITS, Plain(Binary::BitOr)),
        "#" => (level::BITS, Plain(Binary::BitXor)),
        "&" => (level::BITS, Plain(Binary::BitAnd)),
        "<<" => (level::BITS, Plain(Binary::ShiftLeft)),
        ">>" => (level::BITS, Plain(Binary::ShiftRight)),
        "+" => (level::SUM, Plain(Binary::Add)),
        "-" => (level::SUM, Plain(Binary::Subtract)),
        "*" => (level::PRODUCT, Plain(Binary::Multiply)),
        "/" => (level::PRODUCT, Plain(Binary::Divide)),
        "%" => (level::PRODUCT, Plain(Binary::Modulo)),
        _ => return None,
    })
}

impl<'t> ExprParser<'_, 't> {
    fn peek(&mut self) -> Result<Token<'t>, ExprError> {
        if self.ahead.is_none() {
            self.ahead = Some(self.lexer.token()?);
        }
        Ok(self.ahead.unwrap_or(Token::End))
    }

    fn next(&mut self) -> Result<Token<'t>, ExprError> {
        let token = self.peek()?;
        self.ahead = None;
        Ok(token)
    }

    fn accept(&mut self, wanted: Token<'_>) -> Result<bool, ExprError> {
        let found = self.peek()? == wanted;
        if found {
            self.ahead = None;
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: Token<'_>) -> Result<(), ExprError> {
        if self.accept(wanted)? { Ok(()) } else { Err(syntax_error()) }
    }

    /// Parses an expression of operators that bind at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Result<Tree, ExprError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(too_deep());
        }
        let mut left = self.operand()?;
        loop {
            let token = self.peek()?;
            if let Some((strength, operator)) = operator(token) {
                if strength < least {
                    break;
                }
                self.ahead = None;
                let right = self.expression(strength + 1)?;
                // Comparisons are not associative: a < b < c is an error.
                if strength == level::COMPARISON && matches!(self::operator(self.peek()?), Some((level::COMPARISON, _)))
                {
                    return Err(syntax_error());
                }
                left = operation(operator, left, right)?;
            } else if matches!(token, Token::Keyword("is" | "isnull" | "notnull")) && level::IS >= least {
                left = self.is_clause(left)?;
            } else {
                break;
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Parses `IS [NOT] NULL|TRUE|FALSE`, `ISNULL` or `NOTNULL` after an operand.
    fn is_clause(&mut self, operand: Tree) -> Result<Tree, ExprError> {
        let (negated, value) = match self.next()? {
            Token::Keyword("isnull") => (false, Value::Null),
            Token::Keyword("notnull") => (true, Value::Null),
            _ => {
                let negated = self.accept(Token::Keyword("not"))?;
                let value = match self.peek()? {
                    Token::Keyword("null") => Value::Null,
                    Token::Boolean(boolean) => Value::Bool(boolean),
                    _ => return Err(syntax_error()),
                };
                self.ahead = None;
                (negated, value)
            }
        };
        let is = wrap(operand, |operand| Node::Is(operand, value))?;
        if negated { wrap(is, |is| Node::Unary(Unary::Not, is)) } else { Ok(is) }
    }

    fn operand(&mut self) -> Result<Tree, ExprError> {
        match self.peek()? {
            Token::Symbol("+") => {
                self.ahead = None;
                self.expression(level::UNARY)
            }
            Token::Symbol("-") => {
                self.ahead = None;
                if self.accept(Token::MaxIntPlusOne)? {
                    return Ok(constant(Value::Int(i64::MIN)));
                }
                let operand = self.expression(level::UNARY)?;
                operation(Operator::Plain(Binary::Subtract), constant(Value::Int(0)), operand)
            }
            Token::Symbol("~") => {
                self.ahead = None;
                let operand = self.expression(level::BITS + 1)?;
                operation(Operator::Plain(Binary::BitXor), constant(Value::Int(-1)), operand)
            }
            Token::Keyword("not") => {
                self.ahead = None;
                let operand = self.expression(level::NOT)?;
                wrap(operand, |operand| Node::Unary(Unary::Not, operand))
            }
            _ => self.primary(),
        }
    }

    fn primary(&mut self) -> Result<Tree, ExprError> {
        let token = self.peek()?;
        match token {
            Token::Keyword("null") => self.constant(Value::Null),
            Token::Boolean(boolean) => self.constant(Value::Bool(boolean)),
            Token::Integer(int) => self.constant(Value::Int(int)),
            Token::Double(double) => self.constant(Value::Double(double)),
            Token::Variable(name) => {
                self.ahead = None;
                Ok(variable(name))
            }
            Token::Symbol("(") => {
                self.ahead = None;
                let inner = self.expression(level::OR)?;
                self.expect(Token::Symbol(")"))?;
                Ok(inner)
            }
            Token::Keyword("case") => self.case(),
            Token::Name(name) => {
                self.ahead = None;
                self.function(name)
            }
            _ => Err(syntax_error()),
        }
    }

    fn constant(&mut self, value: Value) -> Result<Tree, ExprError> {
        self.ahead = None;
        Ok(constant(value))
    }

    fn function(&mut self, name: &str) -> Result<Tree, ExprError> {
        let Some((canonical, function)) = find(name) else {
            return Err(LexError { message: "unexpected function name", detail: name.to_owned() });
        };
        self.expect(Token::Symbol("("))?;
        let mut args = Vec::new();
        // The first argument may be missing before a comma: f(, 1) is f(1).
        if !matches!(self.peek()?, Token::Symbol(")" | ",")) {
            args.push(self.expression(level::OR)?);
        }
        while self.accept(Token::Symbol(","))? {
            args.push(self.expression(level::OR)?);
        }
        self.expect(Token::Symbol(")"))?;
        let height = args.iter().map(|tree| tree.height).max().unwrap_or(0) + 1;
        let args = args.into_iter().map(|tree| tree.expr).collect();
        let expr = call(function, args).map_err(|message| LexError { message, detail: canonical.to_owned() })?;
        check_height(expr, height)
    }

    fn case(&mut self) -> Result<Tree, ExprError> {
        self.expect(Token::Keyword("case"))?;
        let mut branches = Vec::new();
        let mut height = 0;
        self.expect(Token::Keyword("when"))?;
        loop {
            let condition = self.expression(level::OR)?;
            self.expect(Token::Keyword("then"))?;
            let result = self.expression(level::OR)?;
            height = height.max(condition.height).max(result.height);
            branches.push([condition.expr, result.expr]);
            if !self.accept(Token::Keyword("when"))? {
                break;
            }
        }
        let mut otherwise = constant(Value::Null);
        if self.accept(Token::Keyword("else"))? {
            otherwise = self.expression(level::OR)?;
        }
        self.expect(Token::Keyword("end"))?;
        let height = height.max(otherwise.height) + 1;
        let otherwise = otherwise.expr;
        check_height(Node::Case(Box::new(Case { branches, otherwise })), height)
    }
}

fn constant(value: Value) -> Tree {
    Tree { expr: Node::Constant(value), height: 1 }
}

fn variable(name: &str) -> Tree {
    Tree { expr: Node::Variable(name.into()), height: 1 }
}

fn wrap(arg: Tree, make: impl FnOnce(Box<Expr>) -> Expr) -> Result<Tree, ExprError> {
    check_height(make(Box::new(arg.expr)), arg.height + 1)
}

fn operation(operator: Operator, left: Tree, right: Tree) -> Result<Tree, ExprError> {
    let height = left.height.max(right.height) + 1;
    let (left, right) = (left.expr, right.expr);
    let expr = match operator {
        Operator::And => Node::And(Box::new([left, right])),
        Operator::Or => Node::Or(Box::new([left, right])),
        Operator::Plain(binary) => Node::Binary(binary, Box::new([left, right])),
        Operator::Swapped(binary) => Node::Binary(binary, Box::new([right, left])),
    };
    check_height(expr, height)
}

/// A call, or an error in the number of its arguments.
fn call(function: Function, mut args: Vec<Expr>) -> Result<Expr, &'static str> {
    let seeded_from = match function {
        Function::Hash(_) => 1,
        Function::Permute => 2,
        _ => usize::MAX,
    };
    if args.len() == seeded_from {
        args.push(Node::Variable("default_seed".into()));
    }
    Ok(match function {
        Function::Unary(unary) => {
            let [arg] = *exactly(args)?;
            Node::Unary(unary, Box::new(arg))
        }
        Function::Debug => {
            let [arg] = *exactly(args)?;
            Node::Debug(Box::new(arg))
        }
        Function::Binary(binary) | Function::Hash(binary) => Node::Binary(binary, exactly(args)?),
        Function::Random => Node::Random(exactly(args)?),
        Function::Shaped(shape) => Node::Shaped(shape, exactly(args)?),
        Function::Permute => Node::Permute(exactly(args)?),
        Function::Extreme(_) if args.is_empty() => return Err("at least one argument expected"),
        Function::Extreme(extreme) => Node::Extreme(extreme, args.into()),
        Function::Pi => {
            let [] = *exactly(args)?;
            Node::Constant(Value::Double(std::f64::consts::PI))
        }
    })
}

fn exactly<const N: usize>(args: Vec<Expr>) -> Result<Box<[Expr; N]>, &'static str> {
    args.into_boxed_slice().try_into().map_err(|_| "unexpected number of arguments")
}

fn check_height(expr: Expr, height: u32) -> Result<Tree, ExprError> {
    if height > MAX_HEIGHT { Err(too_deep()) } else { Ok(Tree { expr, height }) }
}

/// The message of pgbench's parser when its own (larger) stack is full.
fn too_deep() -> ExprError {
    LexError { message: "memory exhausted", detail: String::new() }
}
